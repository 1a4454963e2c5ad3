//! Drives a client or a relay: bytes, events and timers of an agent process, and its [`Host`].

use std::sync::Arc;
use std::time::Instant;

use aifo_acp::{Id, RequestEvent, RpcError, Withdrawal, code};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::time::{sleep_until, timeout};

use crate::agent_process::{AgentExit, AgentProcess, DRAIN_TIMEOUT, READ};
use crate::host::Host;
use crate::host_calls::HostCalls;

/// A protocol state machine with its agent process, the clock, and a [`Host`]
/// (`spec/acp.md#processes`).
#[derive(Debug)]
pub(crate) struct Driver<P, H> {
    pub(crate) protocol: P,
    process: AgentProcess,
    host: Arc<H>,
    host_calls: HostCalls,
    stdout_state: StdoutState,
    buffer: Vec<u8>,
}

/// A sans-IO state machine for one agent, with the streams that it has besides the agent's.
pub(crate) trait Protocol: Sized {
    type Event: From<RequestEvent>;

    /// True if errors give the agent's exit status, which is then awaited.
    const REPORTS_EXIT: bool = false;

    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Returns the driver's reaction to an event.
    fn action(event: Self::Event) -> Action<Self::Event>;

    /// Passes in bytes of the agent.
    fn receive(&mut self, bytes: &[u8], now: Instant);

    /// Passes in the end of the agent's stream.
    fn receive_eof(&mut self, now: Instant);

    /// Returns whether to read from the agent.
    fn should_read(&self) -> bool;

    /// Returns whether there are lines for the agent.
    fn has_output(&self) -> bool;

    /// Returns the next line for the agent.
    fn poll_transmit(&mut self) -> Option<Vec<u8>>;

    fn poll_timeout(&self) -> Option<Instant>;

    fn handle_timeout(&mut self, now: Instant);

    /// Answers a request of the agent that the host has served.
    fn respond(&mut self, id: &Id, outcome: Result<Value, RpcError>, now: Instant);

    /// Sets the reason for the agent's end.
    fn set_end_reason(&mut self, _: String) {}

    /// Returns whether nothing is left to do after the agent's end.
    fn is_finished(&self) -> bool {
        true
    }

    /// Waits for one event of its own streams and handles it. Cancel-safe.
    async fn advance(&mut self) {
        std::future::pending::<()>().await;
    }

    /// Writes the rest to its own streams.
    async fn finish(self) {}
}

/// The driver's reaction to an event.
pub(crate) enum Action<E> {
    /// Handles the agent request, if it is the host's; returns the others.
    Request(RequestEvent),
    /// Kills the agent, then returns the event.
    Kill(E),
    /// Ends the agent input, then returns the event.
    Close(E),
    /// Returns the event.
    Return(E),
}

/// The state of an agent's stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StdoutState {
    /// More may be read.
    Open,
    /// The process has exited; the pipe may hold unread output.
    ProcessExited,
    /// The state machine has received the end of the stream.
    Ended,
}

impl<P: Protocol, H: Host> Driver<P, H> {
    pub(crate) fn new(protocol: P, process: AgentProcess, host: H) -> Self {
        Driver {
            protocol,
            process,
            host: Arc::new(host),
            host_calls: HostCalls::default(),
            stdout_state: StdoutState::Open,
            buffer: vec![0; READ],
        }
    }

    /// Returns the next event; `None` when the agent has ended and nothing is left to do.
    /// Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<P::Event> {
        loop {
            while let Some(event) = self.protocol.poll_event() {
                if let Some(event) = self.handle_event(event) {
                    return Some(event);
                }
            }
            if self.stdout_state == StdoutState::Ended && self.protocol.is_finished() {
                return None;
            }
            self.advance().await;
        }
    }

    /// Writes the rest, ends the agent if it is running, and kills everything that it started.
    pub(crate) async fn end(self) -> AgentExit {
        drop(self.host_calls);
        let (end, (), ()) =
            tokio::join!(self.process.end(), self.host.end(), self.protocol.finish());
        end
    }

    /// Handles events for the host and the process; returns the others.
    fn handle_event(&mut self, event: P::Event) -> Option<P::Event> {
        match P::action(event) {
            Action::Request(request) => self.handle_request(request).map(P::Event::from),
            Action::Kill(event) => {
                let reason = "killed after it did not end a cancelled turn";
                self.protocol.set_end_reason(reason.to_owned());
                self.process.kill();
                self.close_agent();
                Some(event)
            }
            Action::Close(event) => {
                self.close_agent();
                Some(event)
            }
            Action::Return(event) => Some(event),
        }
    }

    /// Handles events of the host's requests; returns the others.
    fn handle_request(&mut self, event: RequestEvent) -> Option<RequestEvent> {
        match event {
            RequestEvent::Host { id, method, params } => {
                let call = Arc::clone(&self.host).call(method, params);
                self.host_calls.start(id, call);
                None
            }
            RequestEvent::Withdrawn { id, why } if self.host_calls.stop(&id) => {
                if why == Withdrawal::ByAgent {
                    let gone = RpcError::new(code::CANCELLED, "cancelled by the agent");
                    self.protocol.respond(&id, Err(gone), Instant::now());
                }
                None
            }
            event => Some(event),
        }
    }

    /// Waits for one I/O or timer event and handles it.
    async fn advance(&mut self) {
        let deadline = self.protocol.poll_timeout().map(tokio::time::Instant::from_std);
        let due = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (should_read, has_output) = (self.protocol.should_read(), self.protocol.has_output());
        let mut ended = false;
        tokio::select! {
            (id, outcome) = self.host_calls.next() => {
                self.host_calls.stop(&id);
                self.protocol.respond(&id, outcome, Instant::now());
            }
            room = self.process.stdin.reserve(), if has_output => {
                match (room, self.protocol.poll_transmit()) {
                    (Some(room), Some(line)) => room.send(line),
                    // The agent closed its stdin, so its requests cannot be answered.
                    _ => ended = true,
                }
            }
            () = due => self.protocol.handle_timeout(Instant::now()),
            () = self.protocol.advance() => {}
            () = self.process.exited.wait(), if self.stdout_state == StdoutState::Open => {
                self.protocol.set_end_reason(self.process.exit_summary());
                // Its children could otherwise write to its stdout.
                self.process.kill();
                self.stdout_state = StdoutState::ProcessExited;
            }
            count = read(&mut self.process.stdout, self.stdout_state, &mut self.buffer),
                if match self.stdout_state {
                    StdoutState::Open => should_read,
                    StdoutState::ProcessExited => true,
                    StdoutState::Ended => false,
                } =>
            {
                let bytes = self.buffer.get(..count).unwrap_or_default();
                self.process.log_read(bytes);
                match bytes {
                    [] => ended = true,
                    bytes => self.protocol.receive(bytes, Instant::now()),
                }
            }
        }
        if ended {
            if P::REPORTS_EXIT {
                // The process exits at about the same time.
                let _ = timeout(DRAIN_TIMEOUT, self.process.exited.wait()).await;
                self.protocol.set_end_reason(self.process.exit_summary());
            }
            self.close_agent();
        }
    }

    /// Ends the agent input to the state machine.
    fn close_agent(&mut self) {
        if self.stdout_state != StdoutState::Ended {
            self.protocol.receive_eof(Instant::now());
            self.stdout_state = StdoutState::Ended;
        }
    }
}

/// Reads some bytes; 0 at the end. After the process has exited, the rest is read with a timeout,
/// as another process may keep the pipe open. Cancel-safe.
async fn read(stdout: &mut ChildStdout, state: StdoutState, buffer: &mut [u8]) -> usize {
    let read = stdout.read(buffer);
    let read = match state {
        StdoutState::ProcessExited => timeout(DRAIN_TIMEOUT, read).await.unwrap_or(Ok(0)),
        StdoutState::Open | StdoutState::Ended => read.await,
    };
    // A failed read counts as the end.
    read.unwrap_or_default()
}
