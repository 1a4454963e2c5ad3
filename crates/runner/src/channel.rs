//! Frames over a socket that never blocks us.
//!
//! To a client it is the connection that the proxy handed on; to the monitor of a terminal one of our
//! own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_wire::{Frame, FrameError, FrameReader};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::outgoing::Outgoing;

/// One end of a connection, with what could not be sent yet.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Outgoing,
    incoming: FrameReader,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Channel { socket: Outgoing::socket(socket), incoming: FrameReader::new() }
    }

    /// To a client, whom nobody trusts.
    pub(crate) fn of_client(socket: OwnedFd) -> Self {
        Channel { incoming: FrameReader::for_client(), ..Channel::new(socket) }
    }

    /// Reads what is there. `Ok(false)` when the peer has closed.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        // Most frames are a few bytes; bulk comes in bulk.
        let room = if self.incoming.is_within_frame() { 64 * 1024 } else { 4096 };
        let space = self.incoming.buffer().spare(room);
        match recv(self.socket.as_fd().as_raw_fd(), space, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.incoming.buffer().commit(count);
                Ok(true)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes bytes that were read by somebody else, who looked for an fd among them.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.incoming.receive(bytes);
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        self.incoming.next_frame()
    }

    /// The peer reads too slowly: something waits for the socket to become writable.
    pub(crate) fn is_blocked(&self) -> bool {
        self.socket.is_blocked()
    }

    /// Sends a small frame, behind whatever still waits.
    pub(crate) fn send(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.socket.send_frame(frame)
    }

    /// Sends encoded bytes, behind whatever still waits.
    pub(crate) fn send_encoded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes)
    }

    /// Sends what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
