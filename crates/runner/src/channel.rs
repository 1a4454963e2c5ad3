//! Frames over a socket that never blocks us.
//!
//! To the proxy it is the control connection; to a client the one that the proxy handed on; to the
//! monitor of a terminal a connection of our own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_wire::{Frame, FrameError, FrameReader};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

/// One end of a connection, with what could not be sent yet.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    incoming: FrameReader,
    outgoing: Vec<u8>,
    /// How much of `outgoing` is gone already.
    sent: usize,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Channel { socket, incoming: FrameReader::new(), outgoing: Vec::new(), sent: 0 }
    }

    /// To a client, whom nobody trusts.
    pub(crate) fn of_client(socket: OwnedFd) -> Self {
        Channel { incoming: FrameReader::of_client(), ..Channel::new(socket) }
    }

    /// Reads what is there. `Ok(false)` when the peer has closed.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        // Most frames are a few bytes; bulk comes in bulk.
        let room = if self.incoming.is_within_frame() { 64 * 1024 } else { 4096 };
        let space = self.incoming.buffer().spare(room);
        match recv(self.socket.as_raw_fd(), space, MsgFlags::MSG_DONTWAIT) {
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
        !self.outgoing.is_empty()
    }

    /// Sends a small frame, behind whatever still waits.
    pub(crate) fn send(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        frame.encode(&mut self.outgoing);
        self.flush()
    }

    /// Sends encoded bytes. Only what the socket does not take at once is copied.
    pub(crate) fn send_encoded(&mut self, bytes: &[u8]) -> io::Result<()> {
        let taken = if self.is_blocked() { 0 } else { self.try_send(bytes)? };
        self.outgoing.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Sends what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outgoing.len() {
            match self.try_send(&self.outgoing[self.sent..])? {
                0 => return Ok(()),
                taken => self.sent += taken,
            }
        }
        // A frame that had to wait is rare; its memory is not kept for the next one.
        self.outgoing = Vec::new();
        self.sent = 0;
        Ok(())
    }

    /// How many bytes the socket takes now; 0 when it is full.
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match send(self.socket.as_raw_fd(), bytes, flags) {
            Ok(taken) => Ok(taken),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
