//! The queue of frames for a runner.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use aifo_wire::{Frame, Start};
use nix::errno::Errno;

use crate::link::Link;

/// Encoded frames, each with the descriptors that travel with its first byte. Senders never wait: the
/// queue keeps the bytes that the link does not take.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Message>,
    unsent: usize,
}

/// A frame in the queue.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
    sent: usize,
    /// The descriptors of a `Start`, closed as soon as they are sent.
    passed: Option<Passed>,
}

#[derive(Debug)]
struct Passed {
    start: Box<Start>,
    fds: Vec<OwnedFd>,
    relay: RelayStreams,
}

/// Relays the bytes of a `Start`'s descriptors, and changes the `Start` accordingly.
pub(crate) struct RelayStreams(pub(crate) Box<Relay>);

pub(crate) type Relay = dyn FnOnce(&mut Start, Vec<OwnedFd>) + Send;

impl std::fmt::Debug for RelayStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayStreams").finish_non_exhaustive()
    }
}

impl Message {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Message { bytes, sent: 0, passed: None }
    }

    pub(crate) fn of_start(start: Start, fds: Vec<OwnedFd>, relay: RelayStreams) -> Self {
        let (start, bytes) = encode(Box::new(start));
        Message { passed: start.map(|start| Passed { start, fds, relay }), ..Message::of(bytes) }
    }
}

/// Returns the bytes of a `Start`, and the `Start` again.
fn encode(start: Box<Start>) -> (Option<Box<Start>>, Vec<u8>) {
    let mut bytes = Vec::new();
    let frame = Frame::Start(start);
    frame.encode(&mut bytes);
    let start = if let Frame::Start(start) = frame { Some(start) } else { None };
    (start, bytes)
}

impl Outbox {
    pub(crate) fn push(&mut self, message: Message) {
        self.unsent = self.unsent.saturating_add(message.bytes.len());
        self.queue.push_back(message);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Sends as much as the link takes at once. If the descriptors of a `Start` cannot pass, as this user has
    /// too many in flight, its streams are relayed. An error means that the runner is lost.
    pub(crate) fn flush(&mut self, link: &Link) -> nix::Result<()> {
        while let Some(message) = self.queue.front_mut() {
            let rest = message.bytes.get(message.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.queue.pop_front();
                continue;
            }
            let fds = message.passed.as_ref().map_or(&[][..], |passed| &passed.fds);
            match link.try_send(rest, fds) {
                Ok(sent) => {
                    message.sent += sent;
                    self.unsent = self.unsent.saturating_sub(sent);
                    message.passed = None;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::ETOOMANYREFS) if message.passed.is_some() => {
                    let Some(passed) = message.passed.take() else { continue };
                    tracing::debug!("too many descriptors in flight; relaying a call's streams");
                    let Passed { mut start, fds, relay } = passed;
                    (relay.0)(&mut start, fds);
                    let (_, bytes) = encode(start);
                    self.unsent = self.unsent.saturating_sub(message.bytes.len());
                    self.unsent = self.unsent.saturating_add(bytes.len());
                    message.bytes = bytes;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
