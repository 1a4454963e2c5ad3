//! A protocol client with the process of its agent.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use aifo_acp::{Client, Config, Event, Id, RpcError};
use serde_json::Value;
use tokio::process::Command;

use crate::agent_process::{AgentExit, AgentProcess, ProcessLimits};
use crate::driver::{Action, Driver, Protocol};
use crate::host::Host;
use crate::wire_log::WireLog;

/// A [`Client`] with its agent process, the clock, and a [`Host`] (`spec/acp.md#processes`).
///
/// [`next`](AgentConnection::next) does all reading and writing. Unless it is polled, nothing is
/// read, and the agent's writes block.
#[derive(Debug)]
pub struct AgentConnection<H>(Driver<Client, H>);

/// The most unwritten lines while reading: an agent may send requests without reading the answers.
const MAX_UNWRITTEN: usize = 64;

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
        let client = Client::new(config, Instant::now());
        Ok(AgentConnection(Driver::new(client, AgentProcess::spawn(command, limits, log)?, host)))
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.0.protocol
    }

    /// Calls the client with the current time. [`next`](AgentConnection::next) writes its output.
    pub fn with_client<T>(&mut self, action: impl FnOnce(&mut Client, Instant) -> T) -> T {
        action(&mut self.0.protocol, Instant::now())
    }

    /// Returns the next event; `None` after [`Event::Closed`]. The host answers its requests, which
    /// are not returned. Cancel-safe.
    ///
    /// Kills an agent that does not end a cancelled turn, after [`Event::Overdue`].
    pub async fn next(&mut self) -> Option<Event> {
        self.0.next().await
    }

    /// Ends the agent, if it is running, and kills everything that it started.
    pub async fn end(self) -> AgentExit {
        self.0.end().await
    }
}

impl Protocol for Client {
    type Event = Event;

    fn poll_event(&mut self) -> Option<Event> {
        Client::poll_event(self)
    }

    fn action(event: Event) -> Action<Event> {
        match event {
            Event::Request(request) => Action::Request(request),
            Event::Overdue { .. } => Action::Kill(event),
            event => Action::Return(event),
        }
    }

    fn receive(&mut self, bytes: &[u8], now: Instant) {
        Client::receive(self, bytes, now);
    }

    fn receive_eof(&mut self, now: Instant) {
        Client::receive_eof(self, now);
    }

    fn should_read(&self) -> bool {
        self.unwritten() < MAX_UNWRITTEN
    }

    fn has_output(&self) -> bool {
        self.unwritten() > 0
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        Client::poll_transmit(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Client::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Client::handle_timeout(self, now);
    }

    fn respond(&mut self, id: &Id, outcome: Result<Value, RpcError>, now: Instant) {
        Client::respond(self, id, outcome, now);
    }
}
