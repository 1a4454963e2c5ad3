//! Runs a relay with its agent's process and the editor.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aifo_acp::{Relay, RelayConfig, RelayEvent, RpcError, Side, Withdrawal, code};
use tokio::process::Command;
use tokio::time::{sleep_until, timeout};

use crate::agent_process::{AgentExit, AgentProcess, DRAIN_TIMEOUT, ProcessLimits, READ};
use crate::agent_stdout::{StdoutState, read};
use crate::host::Host;
use crate::host_calls::HostCalls;
use crate::stdio::Stdio;
use crate::wire_log::WireLog;

/// A [`Relay`] with an agent's process, this process's stdin and stdout, the clock, and a [`Host`]
/// (`spec/acp.md#processes`).
///
/// [`next`](Bridge::next) does all reading and writing.
#[derive(Debug)]
pub struct Bridge<H> {
    relay: Relay,
    process: AgentProcess,
    editor: Stdio,
    host: Arc<H>,
    host_calls: HostCalls,
    /// The state of the agent's stdout.
    stdout_state: StdoutState,
    editor_state: EditorState,
    /// Deadline for the editor's first request after the agent has ended.
    first_request_deadline: Option<tokio::time::Instant>,
    buffer: Vec<u8>,
}

/// The state of the editor's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditorState {
    /// Connected.
    Connected,
    /// It has closed its output; it may still read.
    InputClosed,
    /// Disconnected, or to be ignored.
    Disconnected,
}

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
        Ok(Bridge {
            relay: Relay::new(config, Instant::now()),
            process,
            editor: editor()?,
            host: Arc::new(host),
            host_calls: HostCalls::default(),
            stdout_state: StdoutState::Open,
            editor_state: EditorState::Connected,
            first_request_deadline: None,
            buffer: vec![0; READ],
        })
    }

    /// Returns the relay.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Calls the relay with the current time.
    pub fn with_relay<T>(&mut self, action: impl FnOnce(&mut Relay, Instant) -> T) -> T {
        action(&mut self.relay, Instant::now())
    }

    /// Returns the last bytes of the agent's stderr.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// Returns the next event; `None` when the agent has ended and its output was written, or when
    /// it is no longer needed. Never [`RelayEvent::Request`], which the host answers. Cancel-safe.
    ///
    /// Kills an agent that does not end a cancelled turn, after [`RelayEvent::Overdue`].
    pub async fn next(&mut self) -> Option<RelayEvent> {
        loop {
            while let Some(event) = self.relay.poll_event() {
                if let Some(event) = self.handle_event(event) {
                    return Some(event);
                }
            }
            if self.editor_state == EditorState::Disconnected {
                // Unwritten lines would hold back the agent, whose end is still awaited.
                while self.relay.poll_transmit(Side::Editor).is_some() {}
            }
            // An editor that closed its output gets time to read in `end`.
            let is_flushed = self.editor_state != EditorState::Connected
                || self.relay.backlog(Side::Editor) == 0;
            if self.stdout_state == StdoutState::Ended && is_flushed && !self.awaits_first_request()
            {
                return None;
            }
            self.advance().await;
        }
    }

    /// Ignores the editor from here on, and cancels its turns.
    pub fn disconnect_editor(&mut self) {
        self.close_editor(EditorState::Disconnected);
    }

    /// Writes the rest to the editor, ends the agent if it is running, and kills everything that it
    /// started.
    pub async fn end(mut self) -> AgentExit {
        drop(self.host_calls);
        let rest = std::iter::from_fn(|| lines(&mut self.relay, Side::Editor)).collect();
        let flushed = self.editor.to.finish(rest);
        let (end, (), ()) = tokio::join!(self.process.end(), self.host.end(), flushed);
        end
    }

    /// Handles events for the host and the process; returns the others.
    fn handle_event(&mut self, event: RelayEvent) -> Option<RelayEvent> {
        match &event {
            RelayEvent::Request { .. } => {
                let RelayEvent::Request { id, method, params } = event else { return None };
                let call = Arc::clone(&self.host).call(method, params);
                self.host_calls.start(id, call);
                return None;
            }
            RelayEvent::Withdrawn { id, why } if self.host_calls.stop(id) => {
                if *why == Withdrawal::ByAgent {
                    let gone = RpcError::new(code::CANCELLED, "cancelled by the agent");
                    self.relay.respond(id, Err(gone), Instant::now());
                }
                return None;
            }
            RelayEvent::Overdue { .. } => {
                self.relay.set_end_reason("killed after it did not end a cancelled turn");
                self.process.kill();
                self.close_agent();
            }
            // No need to wait for an agent that is not needed.
            RelayEvent::Released => self.close_agent(),
            _ => {}
        }
        Some(event)
    }

    /// Waits for one I/O or timer event and handles it.
    async fn advance(&mut self) {
        let deadline = self.relay.poll_timeout().map(tokio::time::Instant::from_std);
        let deadline = deadline.into_iter().chain(self.first_request_deadline).min();
        let due = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (relay, stdout_state) = (&mut self.relay, self.stdout_state);
        let (mut ended, mut closed) = (false, None);
        tokio::select! {
            (id, outcome) = self.host_calls.next() => {
                self.host_calls.stop(&id);
                relay.respond(&id, outcome, Instant::now());
            }
            room = self.process.stdin.reserve(), if relay.backlog(Side::Agent) > 0 => {
                match (room, relay.poll_transmit(Side::Agent)) {
                    (Some(room), Some(line)) => room.send(line),
                    // The agent closed its stdin, so its requests cannot be answered.
                    _ => ended = true,
                }
            }
            room = self.editor.to.reserve(), if relay.backlog(Side::Editor) > 0 => {
                match (room, lines(relay, Side::Editor)) {
                    (Some(room), Some(lines)) => self.editor.to.write(room, lines),
                    _ => closed = Some(EditorState::Disconnected),
                }
            }
            () = due => relay.handle_timeout(Instant::now()),
            bytes = self.editor.from.recv(),
                if relay.should_read(Side::Editor) && self.editor_state == EditorState::Connected =>
            {
                match bytes {
                    Some(bytes) => relay.receive(Side::Editor, &bytes, Instant::now()),
                    None => closed = Some(EditorState::InputClosed),
                }
            }
            () = self.process.exited.wait(), if stdout_state == StdoutState::Open => {
                relay.set_end_reason(self.process.exit_summary());
                // Its children could otherwise write to its stdout.
                self.process.kill();
                self.stdout_state = StdoutState::ProcessExited;
            }
            count = read(&mut self.process.stdout, stdout_state, &mut self.buffer),
                if stdout_state != StdoutState::Ended && (relay.should_read(Side::Agent) || stdout_state == StdoutState::ProcessExited) =>
            {
                let bytes = self.buffer.get(..count).unwrap_or_default();
                self.process.log_read(bytes);
                match bytes {
                    [] => ended = true,
                    bytes => relay.receive(Side::Agent, bytes, Instant::now()),
                }
            }
        }
        if ended {
            // The process exits at about the same time; its status is part of the errors.
            let _ = timeout(DRAIN_TIMEOUT, self.process.exited.wait()).await;
            self.relay.set_end_reason(self.process.exit_summary());
            self.close_agent();
        }
        if let Some(editor_state) = closed {
            self.close_editor(editor_state);
        }
    }

    /// Ends the editor's input to the relay.
    fn close_editor(&mut self, editor_state: EditorState) {
        if self.editor_state == EditorState::Connected {
            self.relay.receive_eof(Side::Editor, Instant::now());
        }
        self.editor_state = editor_state;
    }

    /// Ends the agent's input to the relay.
    fn close_agent(&mut self) {
        if self.stdout_state != StdoutState::Ended {
            self.relay.receive_eof(Side::Agent, Instant::now());
            self.stdout_state = StdoutState::Ended;
            self.first_request_deadline = tokio::time::Instant::now().checked_add(FIRST_REQUEST);
        }
    }

    /// Returns whether the agent ended before the editor's first request, which should be answered
    /// with the reason.
    fn awaits_first_request(&self) -> bool {
        self.editor_state == EditorState::Connected
            && self.relay.traffic(Side::Editor).requests == 0
            && self.first_request_deadline.is_some_and(|until| tokio::time::Instant::now() < until)
    }
}

/// The time for the editor's first request after the agent has ended.
pub const FIRST_REQUEST: Duration = Duration::from_secs(5);

/// Joins lines for one end up to the size of one write.
fn lines(relay: &mut Relay, to: Side) -> Option<Vec<u8>> {
    let mut lines = relay.poll_transmit(to)?;
    while lines.len() < READ
        && let Some(line) = relay.poll_transmit(to)
    {
        lines.extend(line);
    }
    Some(lines)
}
