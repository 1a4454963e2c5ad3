//! A running tool: its output to the client, and then its ending.

use std::io;
use std::time::Duration;

use aifo_sidecar::{Exec, ExecEvent};
use aifo_types::Ending;
use aifo_wire::{ClientMode, Exit, SidecarLimit};
use tokio::time::Instant;

use crate::attendant::{Attendant, TimeLimit};
use crate::client::{Client, Surplus};
use crate::proxy::Shared;
use crate::record::Ended;
use crate::registry::Registration;
use crate::tool_output::ToolOutput;

/// A tool that has started.
pub(crate) struct Running {
    exec: Exec,
    output: Option<ToolOutput>,
    attendant: Attendant,
    registration: Registration,
    surplus: Surplus,
    attendance: ClientMode,
}

/// Where output goes, and then the ending. An error means that the client has gone.
pub(crate) trait Sink {
    /// The tool has started.
    async fn start(&mut self, client: &Client) -> io::Result<()>;
    /// It has printed something.
    async fn output(&mut self, client: &Client, data: &[u8]) -> io::Result<()>;
    /// It has ended; `None` if nobody knows how.
    async fn end(&mut self, client: &Client, end: End) -> io::Result<()>;
}

/// What a client is told at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) ending: Option<Ending>,
    /// The limit of the sidecar that struck while it ran, if it failed.
    pub(crate) limit: Option<SidecarLimit>,
    pub(crate) timed_out: bool,
    pub(crate) exit_code: u8,
}

/// What happens while a tool runs.
enum Event {
    /// The runner has something to say; `None` if it is gone.
    Runner(Option<ExecEvent>),
    /// The tool printed so many bytes.
    Output(usize),
    /// Every writer has closed the pipe.
    OutputEnded,
    ClientGone,
}

/// The first read of a tool's output.
const GLANCE: usize = 4 * 1024;
/// Every further one, and so a chunk of an answer, at most: what stays in a processor's cache on its
/// way from pipe to socket.
const BULK: usize = 64 * 1024;

impl Running {
    pub(crate) fn new(
        shared: &Shared,
        exec: Exec,
        output: ToolOutput,
        registration: Registration,
        limit: Option<Duration>,
        at_limit: TimeLimit,
    ) -> Self {
        let deadline = limit.map(|limit| Instant::now() + limit);
        Running {
            attendant: Attendant::new(
                exec.canceller(),
                deadline,
                at_limit,
                shared.shutdown.subscribe(),
            ),
            exec,
            output: Some(output),
            registration,
            surplus: Surplus::new(&shared.config.limits),
            attendance: ClientMode::Attached,
        }
    }

    /// Says whether the client's leaving is the end of the tool.
    pub(crate) fn attended(self, attendance: ClientMode) -> Self {
        Running { attendance, ..self }
    }

    /// Carries output to the client until the tool has ended, then tells the ending. A client that
    /// leaves has its tool ended, and what is still printed is dropped.
    pub(crate) async fn serve(mut self, client: &Client, sink: impl Sink) -> Ended {
        let mut delivery = Delivery { client, sink, present: true, bytes: 0 };
        let started = delivery.sink.start(client);
        let started = self.attendant.attend(started).await;
        delivery.present = started.is_ok();
        let mut buffer = Vec::new();
        let exit = self.follow(&mut delivery, &mut buffer).await;
        self.deliver_rest(&mut delivery, &mut buffer).await;

        let id = self.registration.id().clone();
        let limit = exit.and_then(|exit| exit.limit);
        let (ending, usage) = exit.map(|exit| (exit.ending, exit.usage)).unzip();
        let exit_code = self.attendant.exit_code(ending);
        let timed_out = self.attendant.timed_out();
        if ending.is_none() {
            tracing::warn!(exec_id = %id, "runner lost, ending unknown");
        }
        // The id is free before the client can know that the tool has ended.
        drop(self.registration);
        if delivery.present {
            let end = End { ending, limit, timed_out, exit_code };
            // If the client leaves now, the tool has ended all the same.
            let _ = delivery.sink.end(client, end).await;
        }
        Ended { id, ending, limit, timed_out, exit_code, usage, bytes: delivery.bytes }
    }

    /// Delivers output until the tool has ended. `None` if the runner went first.
    async fn follow(
        &mut self,
        delivery: &mut Delivery<'_, impl Sink>,
        buffer: &mut Vec<u8>,
    ) -> Option<Exit> {
        let mut absence_is_known = false;
        loop {
            if !delivery.present && !std::mem::replace(&mut absence_is_known, true) {
                tracing::info!(exec_id = %self.registration.id(), "disconnect");
                self.attendant.disconnect(&self.registration);
            }
            // Most tools print little; one that goes on is read in bulk.
            buffer.resize(if delivery.bytes == 0 { GLANCE } else { BULK }, 0);
            let watched = self.attendance == ClientMode::Attached && delivery.present;
            let event = async {
                tokio::select! {
                    biased;
                    event = self.exec.next() => Event::Runner(event),
                    event = from_tool(&self.output, buffer) => event,
                    () = delivery.client.gone(&mut self.surplus), if watched => Event::ClientGone,
                }
            };
            match self.attendant.attend(event).await {
                Event::Runner(Some(ExecEvent::Ended(exit))) => return Some(exit),
                // What does not belong here is as good as no event at all.
                Event::Runner(_) => return None,
                Event::ClientGone => delivery.present = false,
                Event::OutputEnded => self.output = None,
                Event::Output(count) => {
                    let data = buffer.get(..count).unwrap_or_default();
                    delivery.deliver(data, &mut self.attendant).await;
                }
            }
        }
    }

    /// Delivers what the tool wrote and nobody has read: it stands in the pipe, which holds no more
    /// than its capacity. What a child that it left behind writes later belongs to nobody.
    async fn deliver_rest(&mut self, delivery: &mut Delivery<'_, impl Sink>, buffer: &mut Vec<u8>) {
        let Some(output) = self.output.take() else { return };
        let mut owed = output.capacity();
        if buffer.is_empty() {
            buffer.resize(GLANCE, 0);
        }
        while owed > 0 {
            let room = owed.min(buffer.len());
            let count = match output.try_read(&mut buffer[..room]) {
                // Every writer has closed.
                Ok(Some(0)) | Err(_) => return,
                Ok(Some(count)) => count,
                Ok(None) => break,
            };
            owed -= count;
            let data = buffer.get(..count).unwrap_or_default();
            delivery.deliver(data, &mut self.attendant).await;
        }
        output.drain_unseen();
    }
}

/// The way of output to a client.
struct Delivery<'a, S> {
    client: &'a Client,
    sink: S,
    /// The client is there, as far as we know.
    present: bool,
    /// What the tool has printed so far.
    bytes: u64,
}

impl<S: Sink> Delivery<'_, S> {
    async fn deliver(&mut self, data: &[u8], attendant: &mut Attendant) {
        self.bytes += data.len() as u64;
        if self.present {
            let sent = self.sink.output(self.client, data);
            self.present = attendant.attend(sent).await.is_ok();
        }
    }
}

async fn from_tool(output: &Option<ToolOutput>, buffer: &mut [u8]) -> Event {
    let Some(output) = output else { return std::future::pending().await };
    match output.read(buffer).await {
        Ok(0) | Err(_) => Event::OutputEnded,
        Ok(count) => Event::Output(count),
    }
}
