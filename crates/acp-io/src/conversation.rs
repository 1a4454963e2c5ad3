//! A client and its agent, put together.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use aifo_acp::{Client, Config, Event, RpcError, Withdrawal, code};
use tokio::process::Command;
use tokio::time::sleep_until;

use crate::calls::Calls;
use crate::host::Host;
use crate::peer::{Peer, PeerEnd, PeerLimits, READ};
use crate::pipe::{Pipe, read};
use crate::wire_log::WireLog;

/// A [`Client`] that is driven: with an agent's pipes, the clock, and a [`Host`]
/// (`spec/acp.md#processes`).
///
/// [`next`](Conversation::next) does all the work. While nobody waits for it nothing is read, which
/// holds the agent back, and nothing is written.
#[derive(Debug)]
pub struct Conversation<H> {
    client: Client,
    peer: Peer,
    host: Arc<H>,
    calls: Calls,
    /// Lines that found no room yet.
    lines: VecDeque<Vec<u8>>,
    pipe: Pipe,
    buffer: Vec<u8>,
}

/// Above so many unwritten lines nothing more is read: an agent that asks and never listens.
const UNWRITTEN: usize = 64;

impl<H: Host> Conversation<H> {
    /// Starts an agent. `config` says all but what is served, which the host does.
    pub fn start(
        command: Command,
        mut config: Config,
        limits: PeerLimits,
        log: Option<Arc<WireLog>>,
        host: H,
    ) -> io::Result<Self> {
        config.serves = host.serves();
        Ok(Conversation {
            client: Client::new(config, Instant::now()),
            peer: Peer::spawn(command, limits, log)?,
            host: Arc::new(host),
            calls: Calls::default(),
            lines: VecDeque::new(),
            pipe: Pipe::Open,
            buffer: vec![0; READ],
        })
    }

    /// The client, to look at.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Tells the client something, at this moment's time. What it wants to write is written as
    /// [`next`](Conversation::next) is waited for.
    pub fn tell<T>(&mut self, what: impl FnOnce(&mut Client, Instant) -> T) -> T {
        what(&mut self.client, Instant::now())
    }

    /// The end of what the agent has said on stderr.
    pub fn stderr(&self) -> String {
        self.peer.stderr()
    }

    /// The next event; `None` after [`Event::Closed`]. Never [`Event::Request`], which the host
    /// answers. Cancel-safe.
    ///
    /// An agent that does not stop although its turn was cancelled is killed, after its
    /// [`Event::Overdue`] was given.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(event) = self.client.poll_event() {
                if let Some(event) = self.take(event) {
                    return Some(event);
                }
            }
            self.lines.extend(std::iter::from_fn(|| self.client.poll_transmit()));
            if self.pipe == Pipe::Ended {
                return None;
            }
            self.advance().await;
        }
    }

    /// Ends the agent, if it has not, and tells how it ended. Of all that it started, nothing runs
    /// any more then.
    pub async fn end(self) -> PeerEnd {
        drop(self.calls);
        let (end, ()) = tokio::join!(self.peer.end(), self.host.end());
        end
    }

    /// What is not for whoever asked.
    fn take(&mut self, event: Event) -> Option<Event> {
        match &event {
            Event::Request { .. } => {
                let Event::Request { id, method, params } = event else { return None };
                let call = Arc::clone(&self.host).call(method, params);
                self.calls.start(id, call);
                return None;
            }
            Event::Withdrawn { id, why } if self.calls.stop(id) => {
                if *why == Withdrawal::ByAgent {
                    let gone = RpcError::new(code::CANCELLED, "withdrawn");
                    self.client.respond(id, Err(gone), Instant::now());
                }
                return None;
            }
            Event::Overdue { .. } => {
                self.peer.kill();
                self.hang_up();
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
            (id, outcome) = self.calls.next() => {
                self.calls.stop(&id);
                self.client.respond(&id, outcome, Instant::now());
            }
            room = self.peer.stdin.room(), if !self.lines.is_empty() => {
                match (room, self.lines.pop_front()) {
                    (Some(room), Some(line)) => room.send(line),
                    // It reads no more, so nothing that it may still say can be answered.
                    _ => ended = true,
                }
            }
            () = due => self.client.handle_timeout(Instant::now()),
            () = self.peer.exited.wait(), if self.pipe == Pipe::Open => {
                // Or what it started could go on speaking in its name.
                self.peer.kill();
                self.pipe = Pipe::Last;
            }
            count = read(&mut self.peer.stdout, self.pipe, &mut self.buffer),
                if self.lines.len() < UNWRITTEN || self.pipe == Pipe::Last =>
            {
                let bytes = self.buffer.get(..count).unwrap_or_default();
                self.peer.log_read(bytes);
                match bytes {
                    [] => ended = true,
                    bytes => self.client.receive(bytes, Instant::now()),
                }
            }
        }
        if ended {
            self.hang_up();
        }
    }

    /// Nothing more is taken from the agent.
    fn hang_up(&mut self) {
        if self.pipe != Pipe::Ended {
            self.client.receive_eof(Instant::now());
            self.pipe = Pipe::Ended;
        }
    }
}
