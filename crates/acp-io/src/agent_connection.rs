//! Runs a client with its agent's process.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use aifo_acp::{Client, Config, Event, RpcError, Withdrawal, code};
use tokio::process::Command;
use tokio::time::sleep_until;

use crate::agent_process::{AgentExit, AgentProcess, ProcessLimits, READ};
use crate::agent_stdout::{StdoutState, read};
use crate::host::Host;
use crate::host_calls::HostCalls;
use crate::wire_log::WireLog;

/// A [`Client`] with its agent's process, the clock, and a [`Host`] (`spec/acp.md#processes`).
///
/// [`next`](AgentConnection::next) does all reading and writing. Unless it is polled, nothing is
/// read, which holds the agent back.
#[derive(Debug)]
pub struct AgentConnection<H> {
    client: Client,
    process: AgentProcess,
    host: Arc<H>,
    host_calls: HostCalls,
    /// Lines to write.
    unsent: VecDeque<Vec<u8>>,
    stdout_state: StdoutState,
    buffer: Vec<u8>,
}

/// The most unwritten lines while reading: an agent may send requests without reading the answers.
const MAX_UNSENT: usize = 64;

impl<H: Host> AgentConnection<H> {
    /// Starts an agent. The host sets `config.capabilities`.
    pub fn start(
        command: Command,
        mut config: Config,
        limits: ProcessLimits,
        log: Option<Arc<WireLog>>,
        host: H,
    ) -> io::Result<Self> {
        config.capabilities = host.capabilities();
        Ok(AgentConnection {
            client: Client::new(config, Instant::now()),
            process: AgentProcess::spawn(command, limits, log)?,
            host: Arc::new(host),
            host_calls: HostCalls::default(),
            unsent: VecDeque::new(),
            stdout_state: StdoutState::Open,
            buffer: vec![0; READ],
        })
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Calls the client with the current time. [`next`](AgentConnection::next) writes its output.
    pub fn with_client<T>(&mut self, action: impl FnOnce(&mut Client, Instant) -> T) -> T {
        action(&mut self.client, Instant::now())
    }

    /// Returns the last bytes of the agent's stderr.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// Returns the next event; `None` after [`Event::Closed`]. Never [`Event::Request`], which the
    /// host answers. Cancel-safe.
    ///
    /// Kills an agent that does not end a cancelled turn, after [`Event::Overdue`].
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(event) = self.client.poll_event() {
                if let Some(event) = self.handle_event(event) {
                    return Some(event);
                }
            }
            self.unsent.extend(std::iter::from_fn(|| self.client.poll_transmit()));
            if self.stdout_state == StdoutState::Ended {
                return None;
            }
            self.advance().await;
        }
    }

    /// Ends the agent, if it is running, and kills everything that it started.
    pub async fn end(self) -> AgentExit {
        drop(self.host_calls);
        let (end, ()) = tokio::join!(self.process.end(), self.host.end());
        end
    }

    /// Handles events for the host and the process; returns the others.
    fn handle_event(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Request { .. } => {
                let Event::Request { id, method, params } = event else { return None };
                let call = Arc::clone(&self.host).call(method, params);
                self.host_calls.start(id, call);
                return None;
            }
            Event::Withdrawn { id, why } if self.host_calls.stop(id) => {
                if *why == Withdrawal::ByAgent {
                    let gone = RpcError::new(code::CANCELLED, "cancelled by the agent");
                    self.client.respond(id, Err(gone), Instant::now());
                }
                return None;
            }
            Event::Overdue { .. } => {
                self.process.kill();
                self.close_agent();
            }
            _ => {}
        }
        Some(event)
    }

    /// Waits for one I/O or timer event and handles it.
    async fn advance(&mut self) {
        let deadline = self.client.poll_timeout().map(tokio::time::Instant::from_std);
        let due = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mut ended = false;
        tokio::select! {
            (id, outcome) = self.host_calls.next() => {
                self.host_calls.stop(&id);
                self.client.respond(&id, outcome, Instant::now());
            }
            room = self.process.stdin.reserve(), if !self.unsent.is_empty() => {
                match (room, self.unsent.pop_front()) {
                    (Some(room), Some(line)) => room.send(line),
                    // The agent closed its stdin, so its requests cannot be answered.
                    _ => ended = true,
                }
            }
            () = due => self.client.handle_timeout(Instant::now()),
            () = self.process.exited.wait(), if self.stdout_state == StdoutState::Open => {
                // Its children could otherwise write to its stdout.
                self.process.kill();
                self.stdout_state = StdoutState::ProcessExited;
            }
            count = read(&mut self.process.stdout, self.stdout_state, &mut self.buffer),
                if self.unsent.len() < MAX_UNSENT || self.stdout_state == StdoutState::ProcessExited =>
            {
                let bytes = self.buffer.get(..count).unwrap_or_default();
                self.process.log_read(bytes);
                match bytes {
                    [] => ended = true,
                    bytes => self.client.receive(bytes, Instant::now()),
                }
            }
        }
        if ended {
            self.close_agent();
        }
    }

    /// Ends the agent's input to the client.
    fn close_agent(&mut self) {
        if self.stdout_state != StdoutState::Ended {
            self.client.receive_eof(Instant::now());
            self.stdout_state = StdoutState::Ended;
        }
    }
}
