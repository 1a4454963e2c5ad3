//! A relay, its agent, and the editor that started us, put together.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aifo_acp::{Relay, RelayConfig, RelayEvent, RpcError, Side, Withdrawal, code};
use tokio::process::Command;
use tokio::time::{sleep_until, timeout};

use crate::calls::Calls;
use crate::host::Host;
use crate::peer::{LAST_WORDS, Peer, PeerEnd, PeerLimits, READ};
use crate::pipe::{Pipe, read};
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
    peer: Peer,
    editor: Stdio,
    host: Arc<H>,
    calls: Calls,
    /// Where the agent's stdout stands.
    pipe: Pipe,
    audience: Audience,
    /// Until when the first request of an editor is waited for, once the agent has ended.
    unheard: Option<tokio::time::Instant>,
    buffer: Vec<u8>,
}

/// Where the editor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// It is there.
    There,
    /// It says no more; it may listen.
    Silent,
    /// It is gone, or to be told nothing more.
    Gone,
}

impl<H: Host> Bridge<H> {
    /// Starts an agent for an editor. Who serves what, `config` says; what is ours to serve, the host
    /// does. An agent that cannot be started leaves the editor's stream unread.
    pub fn start(
        command: Command,
        config: RelayConfig,
        limits: PeerLimits,
        log: Option<Arc<WireLog>>,
        host: H,
        editor: impl FnOnce() -> io::Result<Stdio>,
    ) -> io::Result<Self> {
        let peer = Peer::spawn(command, limits, log)?;
        Ok(Bridge {
            relay: Relay::new(config, Instant::now()),
            peer,
            editor: editor()?,
            host: Arc::new(host),
            calls: Calls::default(),
            pipe: Pipe::Open,
            audience: Audience::There,
            unheard: None,
            buffer: vec![0; READ],
        })
    }

    /// The relay, to look at.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Tells the relay something, at this moment's time.
    pub fn tell<T>(&mut self, what: impl FnOnce(&mut Relay, Instant) -> T) -> T {
        what(&mut self.relay, Instant::now())
    }

    /// The end of what the agent has said on stderr.
    pub fn stderr(&self) -> String {
        self.peer.stderr()
    }

    /// The next event; `None` when the agent has ended and the editor was told, or when it is not
    /// needed any more. Never [`RelayEvent::Request`], which the host answers. Cancel-safe.
    ///
    /// An agent that does not stop although its turn was cancelled is killed, after its
    /// [`RelayEvent::Overdue`] was given.
    pub async fn next(&mut self) -> Option<RelayEvent> {
        loop {
            while let Some(event) = self.relay.poll_event() {
                if let Some(event) = self.take(event) {
                    return Some(event);
                }
            }
            if self.audience == Audience::Gone {
                // Or it would hold back the agent, which has still to be heard to end by itself.
                while self.relay.poll_transmit(Side::Editor).is_some() {}
            }
            // Who says no more has a moment to listen, at the end.
            let is_told = self.audience != Audience::There || self.relay.backlog(Side::Editor) == 0;
            if self.pipe == Pipe::Ended && is_told && !self.is_unheard() {
                return None;
            }
            self.advance().await;
        }
    }

    /// Nothing more is taken from the editor, nor told to it: its turns are cancelled.
    pub fn dismiss_editor(&mut self) {
        self.part(Audience::Gone);
    }

    /// Ends the agent, if it has not, once the editor has what is for it. Of all that the agent
    /// started, nothing runs any more then.
    pub async fn end(mut self) -> PeerEnd {
        drop(self.calls);
        let rest = std::iter::from_fn(|| lines(&mut self.relay, Side::Editor)).collect();
        let told = self.editor.to.finish(rest);
        let (end, (), ()) = tokio::join!(self.peer.end(), self.host.end(), told);
        end
    }

    /// What is not for whoever asked.
    fn take(&mut self, event: RelayEvent) -> Option<RelayEvent> {
        match &event {
            RelayEvent::Request { .. } => {
                let RelayEvent::Request { id, method, params } = event else { return None };
                let call = Arc::clone(&self.host).call(method, params);
                self.calls.start(id, call);
                return None;
            }
            RelayEvent::Withdrawn { id, why } if self.calls.stop(id) => {
                if *why == Withdrawal::ByAgent {
                    let gone = RpcError::new(code::CANCELLED, "withdrawn");
                    self.relay.respond(id, Err(gone), Instant::now());
                }
                return None;
            }
            RelayEvent::Overdue { .. } => {
                self.relay.set_end_reason("it did not stop when it was asked to, and was ended");
                self.peer.kill();
                self.hang_up();
            }
            // The agent is not needed, so it need not be waited for.
            RelayEvent::Released => self.hang_up(),
            _ => {}
        }
        Some(event)
    }

    /// Waits for one thing to happen, and does it.
    async fn advance(&mut self) {
        let deadline = self.relay.poll_timeout().map(tokio::time::Instant::from_std);
        let deadline = deadline.into_iter().chain(self.unheard).min();
        let due = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (relay, pipe) = (&mut self.relay, self.pipe);
        let (mut ended, mut parted) = (false, None);
        tokio::select! {
            (id, outcome) = self.calls.next() => {
                self.calls.stop(&id);
                relay.respond(&id, outcome, Instant::now());
            }
            room = self.peer.stdin.room(), if relay.backlog(Side::Agent) > 0 => {
                match (room, relay.poll_transmit(Side::Agent)) {
                    (Some(room), Some(line)) => room.send(line),
                    // It reads no more, so nothing that it may still say can be answered.
                    _ => ended = true,
                }
            }
            room = self.editor.to.room(), if relay.backlog(Side::Editor) > 0 => {
                match (room, lines(relay, Side::Editor)) {
                    (Some(room), Some(lines)) => self.editor.to.write(room, lines),
                    _ => parted = Some(Audience::Gone),
                }
            }
            () = due => relay.handle_timeout(Instant::now()),
            bytes = self.editor.from.recv(),
                if relay.wants(Side::Editor) && self.audience == Audience::There =>
            {
                match bytes {
                    Some(bytes) => relay.receive(Side::Editor, &bytes, Instant::now()),
                    None => parted = Some(Audience::Silent),
                }
            }
            () = self.peer.exited.wait(), if pipe == Pipe::Open => {
                relay.set_end_reason(self.peer.last_words());
                // Or what it started could go on speaking in its name.
                self.peer.kill();
                self.pipe = Pipe::Last;
            }
            count = read(&mut self.peer.stdout, pipe, &mut self.buffer),
                if pipe != Pipe::Ended && (relay.wants(Side::Agent) || pipe == Pipe::Last) =>
            {
                let bytes = self.buffer.get(..count).unwrap_or_default();
                self.peer.log_read(bytes);
                match bytes {
                    [] => ended = true,
                    bytes => relay.receive(Side::Agent, bytes, Instant::now()),
                }
            }
        }
        if ended {
            // Its process ends at about the same time, and how is worth a moment.
            let _ = timeout(LAST_WORDS, self.peer.exited.wait()).await;
            self.relay.set_end_reason(self.peer.last_words());
            self.hang_up();
        }
        if let Some(audience) = parted {
            self.part(audience);
        }
    }

    /// Takes nothing more from the editor.
    fn part(&mut self, audience: Audience) {
        if self.audience == Audience::There {
            self.relay.receive_eof(Side::Editor, Instant::now());
        }
        self.audience = audience;
    }

    /// Nothing more is taken from the agent.
    fn hang_up(&mut self) {
        if self.pipe != Pipe::Ended {
            self.relay.receive_eof(Side::Agent, Instant::now());
            self.pipe = Pipe::Ended;
            self.unheard = tokio::time::Instant::now().checked_add(FIRST_REQUEST);
        }
    }

    /// Whether the agent has ended before the editor has asked anything: it is about to ask, and is to
    /// be answered why there is no agent.
    fn is_unheard(&self) -> bool {
        self.audience == Audience::There
            && self.relay.traffic(Side::Editor).requests == 0
            && self.unheard.is_some_and(|until| tokio::time::Instant::now() < until)
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
