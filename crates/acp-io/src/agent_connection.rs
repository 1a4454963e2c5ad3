//! A client and its agent, put together.

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

/// A [`Client`] that is driven: with an agent's pipes, the clock, and a [`Host`]
/// (`spec/acp.md#processes`).
///
/// [`next`](AgentConnection::next) does all the work. While nobody waits for it nothing is read, which
/// holds the agent back, and nothing is written.
#[derive(Debug)]
pub struct AgentConnection<H> {
    client: Client,
    process: AgentProcess,
    host: Arc<H>,
    host_calls: HostCalls,
    /// Lines that found no room yet.
    unsent: VecDeque<Vec<u8>>,
    stdout_state: StdoutState,
    buffer: Vec<u8>,
}

/// Above so many unwritten lines nothing more is read: an agent that asks and never listens.
const MAX_UNSENT: usize = 64;

impl<H: Host> AgentConnection<H> {
    /// Starts an agent. `config` says all but what is served, which the host does.
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

    /// The client, to look at.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Tells the client something, at this moment's time. What it wants to write is written as
    /// [`next`](AgentConnection::next) is waited for.
    pub fn with_client<T>(&mut self, action: impl FnOnce(&mut Client, Instant) -> T) -> T {
        action(&mut self.client, Instant::now())
    }

    /// The end of what the agent has said on stderr.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// The next event; `None` after [`Event::Closed`]. Never [`Event::Request`], which the host
    /// answers. Cancel-safe.
    ///
    /// An agent that does not stop although its turn was cancelled is killed, after its
    /// [`Event::Overdue`] was given.
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

    /// Ends the agent, if it has not, and tells how it ended. Of all that it started, nothing runs
    /// any more then.
    pub async fn end(self) -> AgentExit {
        drop(self.host_calls);
        let (end, ()) = tokio::join!(self.process.end(), self.host.end());
        end
    }

    /// What is not for whoever asked.
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
                    let gone = RpcError::new(code::CANCELLED, "withdrawn");
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

    /// Waits for one thing to happen, and does it.
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
                    // It reads no more, so nothing that it may still say can be answered.
                    _ => ended = true,
                }
            }
            () = due => self.client.handle_timeout(Instant::now()),
            () = self.process.exited.wait(), if self.stdout_state == StdoutState::Open => {
                // Or what it started could go on speaking in its name.
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

    /// Nothing more is taken from the agent.
    fn close_agent(&mut self) {
        if self.stdout_state != StdoutState::Ended {
            self.client.receive_eof(Instant::now());
            self.stdout_state = StdoutState::Ended;
        }
    }
}
