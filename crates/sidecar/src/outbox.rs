//! Messages on their way to a runner.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use aifo_process::{Waiting, send_with_fds};
use nix::errno::Errno;

use crate::socket::Socket;

/// Whole frames, each with the fds that go with its first byte. A frame is never left half sent: what
/// the socket does not take waits here, so nobody who sends has to.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Message>,
}

#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    sent: usize,
    /// Ours are closed as soon as they are on their way.
    fds: Vec<OwnedFd>,
}

impl Outbox {
    pub(crate) fn push(&mut self, bytes: Vec<u8>, fds: Vec<OwnedFd>) {
        self.waiting.push_back(Message { bytes, sent: 0, fds });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends what the socket takes at once. An error means that the runner is gone.
    pub(crate) fn flush(&mut self, socket: &Socket) -> nix::Result<()> {
        while let Some(message) = self.waiting.front_mut() {
            let rest = message.bytes.get(message.sent..).unwrap_or_default();
            if rest.is_empty() {
                self.waiting.pop_front();
                continue;
            }
            let fds: Vec<_> = message.fds.iter().map(AsFd::as_fd).collect();
            match send_with_fds(socket.as_fd(), rest, &fds, Waiting::Refuse) {
                Ok(sent) => {
                    message.sent += sent;
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
