//! A relay, its agent, and the editor that started us, put together.

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

/// A [`Relay`] that is driven: with an agent's pipes, our own stdin and stdout, the clock, and a
/// [`Host`] (`spec/acp.md#processes`).
///
/// [`next`](Bridge::next) does all the work. While nobody waits for it nothing is read, and nothing is
/// written.
#[derive(Debug)]
pub struct Bridge<H> {
    relay: Relay,
    process: AgentProcess,
    editor: Stdio,
    host: Arc<H>,
    host_calls: HostCalls,
    /// Where the agent's stdout stands.
    stdout_state: StdoutState,
    editor_state: EditorState,
    /// Until when the first request of an editor is waited for, once the agent has ended.
    first_request_deadline: Option<tokio::time::Instant>,
    buffer: Vec<u8>,
}

/// Where the editor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditorState {
    /// It is there.
    Connected,
    /// It says no more; it may listen.
    InputClosed,
    /// It is gone, or to be told nothing more.
    Disconnected,
}

impl<H: Host> Bridge<H> {
    /// Starts an agent for an editor. Who serves what, `config` says; what is ours to serve, the host
    /// does. An agent that cannot be started leaves the editor's stream unread.
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

    /// The relay, to look at.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Tells the relay something, at this moment's time.
    pub fn with_relay<T>(&mut self, action: impl FnOnce(&mut Relay, Instant) -> T) -> T {
        action(&mut self.relay, Instant::now())
    }

    /// The end of what the agent has said on stderr.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// The next event; `None` when the agent has ended and the editor was told, or when it is not
    /// needed any more. Never [`RelayEvent::Request`], which the host answers. Cancel-safe.
    ///
    /// An agent that does not stop although its turn was cancelled is killed, after its
    /// [`RelayEvent::Overdue`] was given.
    pub async fn next(&mut self) -> Option<RelayEvent> {
        loop {
            while let Some(event) = self.relay.poll_event() {
                if let Some(event) = self.handle_event(event) {
                    return Some(event);
                }
            }
            if self.editor_state == EditorState::Disconnected {
                // Or it would hold back the agent, which has still to be heard to end by itself.
                while self.relay.poll_transmit(Side::Editor).is_some() {}
            }
            // Who says no more has a moment to listen, at the end.
            let is_flushed = self.editor_state != EditorState::Connected
                || self.relay.backlog(Side::Editor) == 0;
            if self.stdout_state == StdoutState::Ended && is_flushed && !self.awaits_first_request()
            {
                return None;
            }
            self.advance().await;
        }
    }

    /// Nothing more is taken from the editor, nor told to it: its turns are cancelled.
    pub fn disconnect_editor(&mut self) {
        self.close_editor(EditorState::Disconnected);
    }

    /// Ends the agent, if it has not, once the editor has what is for it. Of all that the agent
    /// started, nothing runs any more then.
    pub async fn end(mut self) -> AgentExit {
        drop(self.host_calls);
        let rest = std::iter::from_fn(|| lines(&mut self.relay, Side::Editor)).collect();
        let flushed = self.editor.to.finish(rest);
        let (end, (), ()) = tokio::join!(self.process.end(), self.host.end(), flushed);
        end
    }

    /// What is not for whoever asked.
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
                    let gone = RpcError::new(code::CANCELLED, "withdrawn");
                    self.relay.respond(id, Err(gone), Instant::now());
                }
                return None;
            }
            RelayEvent::Overdue { .. } => {
                self.relay.set_end_reason("it did not stop when it was asked to, and was ended");
                self.process.kill();
                self.close_agent();
            }
            // The agent is not needed, so it need not be waited for.
            RelayEvent::Released => self.close_agent(),
            _ => {}
        }
        Some(event)
    }

    /// Waits for one thing to happen, and does it.
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
                    // It reads no more, so nothing that it may still say can be answered.
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
                // Or what it started could go on speaking in its name.
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
            // Its process ends at about the same time, and how is worth a moment.
            let _ = timeout(DRAIN_TIMEOUT, self.process.exited.wait()).await;
            self.relay.set_end_reason(self.process.exit_summary());
            self.close_agent();
        }
        if let Some(editor_state) = closed {
            self.close_editor(editor_state);
        }
    }

    /// Takes nothing more from the editor.
    fn close_editor(&mut self, editor_state: EditorState) {
        if self.editor_state == EditorState::Connected {
            self.relay.receive_eof(Side::Editor, Instant::now());
        }
        self.editor_state = editor_state;
    }

    /// Nothing more is taken from the agent.
    fn close_agent(&mut self) {
        if self.stdout_state != StdoutState::Ended {
            self.relay.receive_eof(Side::Agent, Instant::now());
            self.stdout_state = StdoutState::Ended;
            self.first_request_deadline = tokio::time::Instant::now().checked_add(FIRST_REQUEST);
        }
    }

    /// Whether the agent has ended before the editor has asked anything: it is about to ask, and is to
    /// be answered why there is no agent.
    fn awaits_first_request(&self) -> bool {
        self.editor_state == EditorState::Connected
            && self.relay.traffic(Side::Editor).requests == 0
            && self.first_request_deadline.is_some_and(|until| tokio::time::Instant::now() < until)
    }
}

/// For an editor to ask its first request, when there is no agent.
pub const FIRST_REQUEST: Duration = Duration::from_secs(5);

/// What waits for one end, as much of it as is worth one write.
fn lines(relay: &mut Relay, to: Side) -> Option<Vec<u8>> {
    let mut lines = relay.poll_transmit(to)?;
    while lines.len() < READ
        && let Some(line) = relay.poll_transmit(to)
    {
        lines.extend(line);
    }
    Some(lines)
}
