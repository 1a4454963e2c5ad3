//! The queue of frames for a runner.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use crate::link::Link;

/// Encoded frames, each with the descriptors that travel with its first byte. Senders never wait: the
/// queue keeps the bytes that the link does not take.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Message>,
    unsent: usize,
}

#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    sent: usize,
    /// Closed as soon as they are sent.
    fds: Vec<OwnedFd>,
}

impl Outbox {
    pub(crate) fn push(&mut self, bytes: Vec<u8>, fds: Vec<OwnedFd>) {
        self.unsent = self.unsent.saturating_add(bytes.len());
        self.queue.push_back(Message { bytes, sent: 0, fds });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Sends as much as the link takes at once. An error means that the runner is lost.
    pub(crate) fn flush(&mut self, link: &Link) -> nix::Result<()> {
        while let Some(message) = self.queue.front_mut() {
            let rest = message.bytes.get(message.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.queue.pop_front();
                continue;
            }
            match link.try_send(rest, &message.fds) {
                Ok(sent) => {
                    message.sent += sent;
                    self.unsent = self.unsent.saturating_sub(sent);
                    message.fds.clear();
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
