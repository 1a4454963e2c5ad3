//! Frames over a non-blocking socket: a client connection, or the connection to a monitor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_wire::{Frame, FrameError, FrameReader};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::nonblocking_writer::NonblockingWriter;

/// A socket with buffers for both directions.
#[derive(Debug)]
pub(crate) struct FrameSocket {
    socket: NonblockingWriter,
    incoming: FrameReader,
}

impl FrameSocket {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        FrameSocket { socket: NonblockingWriter::socket(socket), incoming: FrameReader::new() }
    }

    /// Wraps a client connection, with the frame limits for untrusted peers.
    pub(crate) fn of_client(socket: OwnedFd) -> Self {
        FrameSocket { incoming: FrameReader::for_client(), ..FrameSocket::new(socket) }
    }

    /// Reads available bytes. Returns `Ok(false)` when the peer has closed.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        // Most frames are a few bytes; the rest of a larger one comes in bulk.
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

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.incoming.receive(bytes);
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        self.incoming.next_frame()
    }

    /// Returns whether bytes are pending because the peer reads too slowly.
    pub(crate) fn is_blocked(&self) -> bool {
        self.socket.is_blocked()
    }

    pub(crate) fn send(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.socket.send_frame(frame)
    }

    /// Sends encoded frames, behind pending bytes.
    pub(crate) fn send_encoded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
