//! Runs a relay with its agent process and the editor.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aifo_acp::{Id, Relay, RelayConfig, RelayEvent, RpcError, Side};
use serde_json::Value;
use tokio::process::Command;

use crate::agent_process::{AgentExit, AgentProcess, ProcessLimits, READ};
use crate::driver::{Action, Driver, Protocol};
use crate::host::Host;
use crate::stdio::Stdio;
use crate::wire_log::WireLog;

/// A [`Relay`] with an agent process, this process's stdin and stdout, the clock, and a [`Host`]
/// (`spec/acp.md#processes`).
///
/// [`next`](Bridge::next) does all reading and writing.
#[derive(Debug)]
pub struct Bridge<H>(Driver<EditorRelay, H>);

/// A relay with the editor's streams.
#[derive(Debug)]
struct EditorRelay {
    relay: Relay,
    editor: Stdio,
    editor_state: EditorState,
    /// Deadline for the editor's first request after the agent has ended.
    first_request_deadline: Option<Instant>,
}

/// The state of the editor connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditorState {
    /// Connected.
    Connected,
    /// It has closed its output; it may still read.
    InputClosed,
    /// Disconnected, or to be ignored.
    Disconnected,
}

/// The time for the editor's first request after the agent has ended.
pub const FIRST_REQUEST: Duration = Duration::from_secs(5);

impl<H: Host> Bridge<H> {
    /// Starts an agent for an editor. The host serves the requests that `config` assigns to it. If
    /// the agent cannot be started, the editor's stream is left unread.
    pub fn start(
        command: Command,
        config: RelayConfig,
        limits: ProcessLimits,
        log: Option<Arc<WireLog>>,
        host: H,
        editor: impl FnOnce() -> io::Result<Stdio>,
    ) -> io::Result<Self> {
        let process = AgentProcess::spawn(command, limits, log)?;
        let protocol = EditorRelay {
            relay: Relay::new(config, Instant::now()),
            editor: editor()?,
            editor_state: EditorState::Connected,
            first_request_deadline: None,
        };
        Ok(Bridge(Driver::new(protocol, process, host)))
    }

    /// Returns the relay.
    pub fn relay(&self) -> &Relay {
        &self.0.protocol.relay
    }

    /// Calls the relay with the current time.
    pub fn with_relay<T>(&mut self, action: impl FnOnce(&mut Relay, Instant) -> T) -> T {
        action(&mut self.0.protocol.relay, Instant::now())
    }

    /// Returns the next event; `None` when the agent has ended and its output was written, or when
    /// it is no longer needed. The host answers its requests, which are not returned. Cancel-safe.
    ///
    /// Kills an agent that does not end a cancelled turn, after [`RelayEvent::Overdue`].
    pub async fn next(&mut self) -> Option<RelayEvent> {
        self.0.next().await
    }

    /// Ignores the editor from here on, and cancels its turns.
    pub fn disconnect_editor(&mut self) {
        self.0.protocol.close_editor(EditorState::Disconnected);
    }

    /// Writes the rest to the editor, ends the agent if it is running, and kills everything that it
    /// started.
    pub async fn end(self) -> AgentExit {
        self.0.end().await
    }
}

impl EditorRelay {
    /// Ends the editor input to the relay.
    fn close_editor(&mut self, editor_state: EditorState) {
        if self.editor_state == EditorState::Connected {
            self.relay.receive_eof(Side::Editor, Instant::now());
        }
        self.editor_state = editor_state;
    }

    /// Returns whether the agent ended before the editor's first request, which should be answered
    /// with the reason.
    fn awaits_first_request(&self) -> bool {
        self.editor_state == EditorState::Connected
            && self.relay.traffic(Side::Editor).requests == 0
            && self.first_request_deadline.is_some_and(|until| Instant::now() < until)
    }
}

impl Protocol for EditorRelay {
    type Event = RelayEvent;

    const REPORTS_EXIT: bool = true;

    fn poll_event(&mut self) -> Option<RelayEvent> {
        let event = self.relay.poll_event();
        if event.is_none() && self.editor_state == EditorState::Disconnected {
            // Unwritten lines would hold back the agent, whose end is still awaited.
            while self.relay.poll_transmit(Side::Editor).is_some() {}
        }
        event
    }

    fn action(event: RelayEvent) -> Action<RelayEvent> {
        match event {
            RelayEvent::Request(request) => Action::Request(request),
            RelayEvent::Overdue { .. } => Action::Kill(event),
            // No need to wait for an agent that is not needed.
            RelayEvent::Released => Action::Close(event),
            event => Action::Return(event),
        }
    }

    fn receive(&mut self, bytes: &[u8], now: Instant) {
        self.relay.receive(Side::Agent, bytes, now);
    }

    fn receive_eof(&mut self, now: Instant) {
        self.relay.receive_eof(Side::Agent, now);
        self.first_request_deadline = now.checked_add(FIRST_REQUEST);
    }

    fn should_read(&self) -> bool {
        self.relay.should_read(Side::Agent)
    }

    fn has_output(&self) -> bool {
        self.relay.backlog(Side::Agent) > 0
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.relay.poll_transmit(Side::Agent)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let first_request = self.first_request_deadline.filter(|_| self.awaits_first_request());
        self.relay.poll_timeout().into_iter().chain(first_request).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.relay.handle_timeout(now);
    }

    fn respond(&mut self, id: &Id, outcome: Result<Value, RpcError>, now: Instant) {
        self.relay.respond(id, outcome, now);
    }

    fn set_end_reason(&mut self, reason: String) {
        self.relay.set_end_reason(reason);
    }

    fn is_finished(&self) -> bool {
        // An editor that closed its output gets time to read in `finish`.
        let is_flushed =
            self.editor_state != EditorState::Connected || self.relay.backlog(Side::Editor) == 0;
        is_flushed && !self.awaits_first_request()
    }

    async fn advance(&mut self) {
        let has_output = self.relay.backlog(Side::Editor) > 0;
        let should_read =
            self.relay.should_read(Side::Editor) && self.editor_state == EditorState::Connected;
        let mut closed = None;
        tokio::select! {
            room = self.editor.to.reserve(), if has_output => {
                match (room, poll_lines(&mut self.relay)) {
                    (Some(room), Some(lines)) => self.editor.to.write(room, lines),
                    _ => closed = Some(EditorState::Disconnected),
                }
            }
            bytes = self.editor.from.recv(), if should_read => match bytes {
                Some(bytes) => self.relay.receive(Side::Editor, &bytes, Instant::now()),
                None => closed = Some(EditorState::InputClosed),
            },
            else => std::future::pending().await,
        }
        if let Some(editor_state) = closed {
            self.close_editor(editor_state);
        }
    }

    async fn finish(mut self) {
        let rest = std::iter::from_fn(|| poll_lines(&mut self.relay)).collect();
        self.editor.to.finish(rest).await;
    }
}

/// Joins lines for the editor up to the size of one write.
fn poll_lines(relay: &mut Relay) -> Option<Vec<u8>> {
    let mut lines = relay.poll_transmit(Side::Editor)?;
    while lines.len() < READ
        && let Some(line) = relay.poll_transmit(Side::Editor)
    {
        lines.extend(line);
    }
    Some(lines)
}
