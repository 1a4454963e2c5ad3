//! Relays a tool output and its ending to the client, for protocol versions 1 and 2.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use aifo_sidecar::{Exec, ExecEvent};
use aifo_wire::{ClientMode, Exit};
use tokio::time::Instant;

use crate::budget::Budget;
use crate::call_watcher::{CallWatcher, TimeLimit};
use crate::client::{Client, SurplusBudget};
use crate::read_buffer::{ReadBuffer, ReadSize};
use crate::record::CallResult;
use crate::registry::Registration;
use crate::state::ProxyState;
use crate::tool_output::ToolOutput;

/// A started tool whose output the proxy relays.
pub(crate) struct RelayedExec {
    exec: Exec,
    output: Option<ToolOutput>,
    watcher: CallWatcher,
    registration: Registration,
    surplus: SurplusBudget,
    memory: Arc<Budget>,
    mode: ClientMode,
}

/// Writes the response. An error means that the client has disconnected.
pub(crate) trait ResponseWriter {
    async fn start(&mut self, client: &Client) -> io::Result<()>;
    async fn output(&mut self, client: &Client, data: &[u8]) -> io::Result<()>;
    async fn end(&mut self, client: &Client, result: &CallResult) -> io::Result<()>;
}

enum RelayEvent {
    /// An event of the exec; `None` if the runner was lost.
    Runner(Option<ExecEvent>),
    /// The number of bytes read from the tool output.
    Output(usize),
    /// Every writer has closed the pipe.
    OutputEnded,
    ClientDisconnected,
}

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
            memory: Arc::clone(&state.memory),
            mode: ClientMode::Attached,
        }
    }

    /// Sets whether the client's disconnect ends the tool.
    pub(crate) fn with_mode(self, mode: ClientMode) -> Self {
        RelayedExec { mode, ..self }
    }

    /// Relays output to the client until the tool has ended, then the ending. After a disconnect the
    /// tool is ended and its output dropped.
    pub(crate) async fn serve(
        mut self,
        client: &Client,
        writer: impl ResponseWriter,
    ) -> CallResult {
        let mut response = Response { client, writer, connected: true, bytes: 0 };
        let started = response.writer.start(client);
        let started = self.watcher.watch(started).await;
        response.connected = started.is_ok();
        let mut buffer = ReadBuffer::new(&self.memory, ReadSize::Small);
        let exit = self.relay_until_exit(&mut response, &mut buffer).await;
        self.drain_pipe(&mut response, &mut buffer).await;
        drop(buffer);

        let id = self.registration.id().clone();
        let exit_code = self.watcher.exit_code(exit.map(|exit| exit.ending));
        let result = CallResult {
            timed_out: self.watcher.timed_out(),
            bytes: response.bytes,
            ..CallResult::new(id, exit, exit_code)
        };
        // The id is released before the client learns of the end, so that it can be used again.
        drop(self.registration);
        if response.connected {
            // A disconnect has no effect now.
            let _ = response.writer.end(client, &result).await;
        }
        result
    }

    /// Relays output until the tool has ended. `None` if the runner was lost.
    async fn relay_until_exit(
        &mut self,
        response: &mut Response<'_, impl ResponseWriter>,
        buffer: &mut ReadBuffer,
    ) -> Option<Exit> {
        let mut disconnect_reported = false;
        loop {
            if !response.connected && !std::mem::replace(&mut disconnect_reported, true) {
                tracing::info!(exec_id = %self.registration.id(), "disconnect");
                self.watcher.disconnect(&self.registration);
            }
            let ends_on_disconnect = self.mode == ClientMode::Attached && response.connected;
            let event = async {
                let disconnected = response.client.disconnected(&mut self.surplus);
                tokio::select! {
                    biased;
                    event = self.exec.next() => RelayEvent::Runner(event),
                    event = read_output(&self.output, buffer) => event,
                    () = disconnected, if ends_on_disconnect => RelayEvent::ClientDisconnected,
                }
            };
            match self.watcher.watch(event).await {
                RelayEvent::Runner(Some(ExecEvent::Ended(exit))) => return Some(exit),
                // An unexpected event is treated as a lost runner.
                RelayEvent::Runner(_) => return None,
                RelayEvent::ClientDisconnected => response.connected = false,
                RelayEvent::OutputEnded => self.output = None,
                RelayEvent::Output(count) => {
                    let data = buffer.filled(count);
                    response.deliver(data, &mut self.watcher).await;
                }
            }
        }
    }

    /// Relays the rest of the tool output from the pipe, at most the pipe's capacity. Later output of
    /// the tool's background processes is discarded.
    async fn drain_pipe(
        &mut self,
        response: &mut Response<'_, impl ResponseWriter>,
        buffer: &mut ReadBuffer,
    ) {
        let Some(output) = self.output.take() else { return };
        let mut rest = output.rest();
        while let Some(count) = rest.next(|output, max| {
            let space = buffer.space();
            let room = max.min(space.len());
            output.try_read(&mut space[..room])
        }) {
            let data = buffer.filled(count);
            response.deliver(data, &mut self.watcher).await;
        }
        rest.discard();
    }
}

/// The response to a client, until the client disconnects.
struct Response<'a, S> {
    client: &'a Client,
    writer: S,
    /// No disconnect was detected.
    connected: bool,
    /// Bytes of output so far.
    bytes: u64,
}

impl<S: ResponseWriter> Response<'_, S> {
    async fn deliver(&mut self, data: &[u8], watcher: &mut CallWatcher) {
        self.bytes += data.len() as u64;
        if self.connected {
            let sent = self.writer.output(self.client, data);
            self.connected = watcher.watch(sent).await.is_ok();
        }
    }
}

async fn read_output(output: &Option<ToolOutput>, buffer: &mut ReadBuffer) -> RelayEvent {
    let Some(output) = output else { return std::future::pending().await };
    loop {
        match output.try_read(buffer.space()) {
            Ok(Some(0)) | Err(_) => return RelayEvent::OutputEnded,
            Ok(Some(count)) => return RelayEvent::Output(count),
            Ok(None) => {}
        }
        buffer.release();
        if output.readable().await.is_err() {
            return RelayEvent::OutputEnded;
        }
    }
}
