//! A running tool: its output to the client, and then its ending.

use std::io;
use std::time::Duration;

use aifo_sidecar::{Exec, ExecEvent};
use aifo_types::Ending;
use aifo_wire::{Attendance, Exit, SidecarLimit};
use tokio::time::Instant;

use crate::call_watcher::{CallWatcher, TimeLimit};
use crate::client::{Client, SurplusBudget};
use crate::record::CallResult;
use crate::registry::Registration;
use crate::state::ProxyState;
use crate::tool_output::ToolOutput;

/// A tool that has started.
pub(crate) struct RelayedExec {
    exec: Exec,
    output: Option<ToolOutput>,
    watcher: CallWatcher,
    registration: Registration,
    surplus: SurplusBudget,
    attendance: Attendance,
}

/// Where output goes, and then the ending. An error means that the client has gone.
pub(crate) trait ResponseWriter {
    /// The tool has started.
    async fn start(&mut self, client: &Client) -> io::Result<()>;
    /// It has printed something.
    async fn output(&mut self, client: &Client, data: &[u8]) -> io::Result<()>;
    /// It has ended; `None` if nobody knows how.
    async fn end(&mut self, client: &Client, end: ExecEnd) -> io::Result<()>;
}

/// What a client is told at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecEnd {
    pub(crate) ending: Option<Ending>,
    /// The limit of the sidecar that struck while it ran, if it failed.
    pub(crate) limit: Option<SidecarLimit>,
    pub(crate) timed_out: bool,
    pub(crate) exit_code: u8,
}

/// What happens while a tool runs.
enum RelayEvent {
    /// The runner has something to say; `None` if it is gone.
    Runner(Option<ExecEvent>),
    /// The tool printed so many bytes.
    Output(usize),
    /// Every writer has closed the pipe.
    OutputEnded,
    ClientDisconnected,
}

/// The first read of a tool's output.
const FIRST_READ: usize = 4 * 1024;
/// Every further one, and so a chunk of an answer, at most: what stays in a processor's cache on its
/// way from pipe to socket.
const BULK_READ: usize = 64 * 1024;

impl RelayedExec {
    pub(crate) fn new(
        state: &ProxyState,
        exec: Exec,
        output: ToolOutput,
        registration: Registration,
        limit: Option<Duration>,
        at_limit: TimeLimit,
    ) -> Self {
        let deadline = limit.map(|limit| Instant::now() + limit);
        RelayedExec {
            watcher: CallWatcher::new(
                exec.canceller(),
                deadline,
                at_limit,
                state.shutdown.subscribe(),
            ),
            exec,
            output: Some(output),
            registration,
            surplus: SurplusBudget::new(&state.config.limits),
            attendance: Attendance::Waits,
        }
    }

    /// Says whether the client's leaving is the end of the tool.
    pub(crate) fn with_attendance(self, attendance: Attendance) -> Self {
        RelayedExec { attendance, ..self }
    }

    /// Carries output to the client until the tool has ended, then tells the ending. A client that
    /// leaves has its tool ended, and what is still printed is dropped.
    pub(crate) async fn serve(
        mut self,
        client: &Client,
        writer: impl ResponseWriter,
    ) -> CallResult {
        let mut output_to_client = ClientOutput { client, writer, connected: true, bytes: 0 };
        let started = output_to_client.writer.start(client);
        let started = self.watcher.watch(started).await;
        output_to_client.connected = started.is_ok();
        let mut buffer = Vec::new();
        let exit = self.relay_until_exit(&mut output_to_client, &mut buffer).await;
        self.drain_pipe(&mut output_to_client, &mut buffer).await;

        let id = self.registration.id().clone();
        let limit = exit.and_then(|exit| exit.limit);
        let (ending, usage) = exit.map(|exit| (exit.ending, exit.usage)).unzip();
        let exit_code = self.watcher.exit_code(ending);
        let timed_out = self.watcher.timed_out();
        if ending.is_none() {
            tracing::warn!(exec_id = %id, "runner lost, ending unknown");
        }
        // The id is free before the client can know that the tool has ended.
        drop(self.registration);
        if output_to_client.connected {
            let end = ExecEnd { ending, limit, timed_out, exit_code };
            // If the client leaves now, the tool has ended all the same.
            let _ = output_to_client.writer.end(client, end).await;
        }
        CallResult { id, ending, limit, timed_out, exit_code, usage, bytes: output_to_client.bytes }
    }

    /// Delivers output until the tool has ended. `None` if the runner went first.
    async fn relay_until_exit(
        &mut self,
        output_to_client: &mut ClientOutput<'_, impl ResponseWriter>,
        buffer: &mut Vec<u8>,
    ) -> Option<Exit> {
        let mut disconnect_reported = false;
        loop {
            if !output_to_client.connected && !std::mem::replace(&mut disconnect_reported, true) {
                tracing::info!(exec_id = %self.registration.id(), "disconnect");
                self.watcher.disconnect(&self.registration);
            }
            // Most tools print little; one that goes on is read in bulk.
            buffer.resize(if output_to_client.bytes == 0 { FIRST_READ } else { BULK_READ }, 0);
            let client_matters = self.attendance == Attendance::Waits && output_to_client.connected;
            let event = async {
                tokio::select! {
                    biased;
                    event = self.exec.next() => RelayEvent::Runner(event),
                    event = read_output(&self.output, buffer) => event,
                    () = output_to_client.client.disconnected(&mut self.surplus), if client_matters => RelayEvent::ClientDisconnected,
                }
            };
            match self.watcher.watch(event).await {
                RelayEvent::Runner(Some(ExecEvent::Ended(exit))) => return Some(exit),
                // What does not belong here is as good as no event at all.
                RelayEvent::Runner(_) => return None,
                RelayEvent::ClientDisconnected => output_to_client.connected = false,
                RelayEvent::OutputEnded => self.output = None,
                RelayEvent::Output(count) => {
                    let data = buffer.get(..count).unwrap_or_default();
                    output_to_client.deliver(data, &mut self.watcher).await;
                }
            }
        }
    }

    /// Delivers what the tool wrote and nobody has read: it stands in the pipe, which holds no more
    /// than its capacity. What a child that it left behind writes later belongs to nobody.
    async fn drain_pipe(
        &mut self,
        output_to_client: &mut ClientOutput<'_, impl ResponseWriter>,
        buffer: &mut Vec<u8>,
    ) {
        let Some(output) = self.output.take() else { return };
        let mut remaining = output.capacity();
        if buffer.is_empty() {
            buffer.resize(FIRST_READ, 0);
        }
        while remaining > 0 {
            let room = remaining.min(buffer.len());
            let count = match output.try_read(&mut buffer[..room]) {
                // Every writer has closed.
                Ok(Some(0)) | Err(_) => return,
                Ok(Some(count)) => count,
                Ok(None) => break,
            };
            remaining -= count;
            let data = buffer.get(..count).unwrap_or_default();
            output_to_client.deliver(data, &mut self.watcher).await;
        }
        output.discard_rest();
    }
}

/// The way of output to a client.
struct ClientOutput<'a, S> {
    client: &'a Client,
    writer: S,
    /// The client is there, as far as we know.
    connected: bool,
    /// What the tool has printed so far.
    bytes: u64,
}

impl<S: ResponseWriter> ClientOutput<'_, S> {
    async fn deliver(&mut self, data: &[u8], watcher: &mut CallWatcher) {
        self.bytes += data.len() as u64;
        if self.connected {
            let sent = self.writer.output(self.client, data);
            self.connected = watcher.watch(sent).await.is_ok();
        }
    }
}

async fn read_output(output: &Option<ToolOutput>, buffer: &mut [u8]) -> RelayEvent {
    let Some(output) = output else { return std::future::pending().await };
    match output.read(buffer).await {
        Ok(0) | Err(_) => RelayEvent::OutputEnded,
        Ok(count) => RelayEvent::Output(count),
    }
}
