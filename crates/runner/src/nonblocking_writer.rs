//! Buffered output of frames to a descriptor without blocking. The shim uses it too.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use aifo_wire::{Buffer, Frame};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::write;

/// The writer of the control connection, shared with tunnelled clients.
pub(crate) type SharedWriter = Rc<RefCell<NonblockingWriter>>;

/// A writable descriptor with its unsent bytes.
#[derive(Debug)]
pub struct NonblockingWriter {
    fd: OwnedFd,
    kind: FdKind,
    unsent: Buffer,
    /// Bytes were pending since this was last queried.
    had_to_wait: bool,
    /// The peer has closed.
    is_closed_by_peer: bool,
}

#[derive(Clone, Copy, Debug)]
enum FdKind {
    /// Its open file description is shared and may block, so each send is MSG_DONTWAIT.
    Socket,
    /// Non-blocking.
    Pipe,
}

impl NonblockingWriter {
    /// Creates a writer for a socket, which may be in blocking mode.
    pub fn socket(fd: OwnedFd) -> Self {
        NonblockingWriter::new(fd, FdKind::Socket)
    }

    pub(crate) fn pipe(fd: OwnedFd) -> Self {
        NonblockingWriter::new(fd, FdKind::Pipe)
    }

    fn new(fd: OwnedFd, kind: FdKind) -> Self {
        NonblockingWriter {
            fd,
            kind,
            unsent: Buffer::new(),
            had_to_wait: false,
            is_closed_by_peer: false,
        }
    }

    /// Returns whether bytes are pending.
    pub fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns whether the peer has closed. Pending bytes were dropped.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_closed_by_peer
    }

    /// Returns whether bytes were pending since the last call.
    pub(crate) fn take_had_to_wait(&mut self) -> bool {
        std::mem::take(&mut self.had_to_wait)
    }

    /// Sends bytes, behind pending ones. Copies only what cannot be sent at once.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let taken = if self.is_blocked() { 0 } else { self.try_send(bytes)? };
        let rest = bytes.get(taken..).unwrap_or_default();
        self.had_to_wait |= !rest.is_empty();
        self.unsent.extend(rest);
        Ok(())
    }

    /// Returns the queue of pending bytes. [`flush`](NonblockingWriter::flush) sends bytes that are
    /// appended to it.
    pub fn pending(&mut self) -> &mut Buffer {
        &mut self.unsent
    }

    /// Returns the number of pending bytes.
    pub fn pending_len(&self) -> usize {
        self.unsent.len()
    }

    pub(crate) fn send_frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.send(&bytes)
    }

    /// Sends pending bytes as far as there is room. Errors: the peer has closed; the pending bytes
    /// are dropped.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.is_blocked() {
            let unsent = std::mem::take(&mut self.unsent);
            let sent = self.try_send(unsent.as_slice())?;
            self.unsent = unsent;
            if sent == 0 {
                return Ok(());
            }
            self.unsent.consume(sent);
        }
        self.unsent.shrink(MAX_KEPT);
        Ok(())
    }

    /// Sends what the descriptor takes now and returns the number of bytes.
    fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        loop {
            let sent = match self.kind {
                _ if self.is_closed_by_peer => Err(Errno::EPIPE),
                FdKind::Socket => send(self.fd.as_raw_fd(), bytes, flags),
                FdKind::Pipe => write(&self.fd, bytes),
            };
            match sent {
                Ok(taken) => return Ok(taken),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(0),
                Err(errno) => {
                    self.is_closed_by_peer = true;
                    self.unsent = Buffer::new();
                    return Err(errno.into());
                }
            }
        }
    }
}

/// Maximum storage of an empty queue, in bytes. The shim fills it with frames of 32 KiB, and must not
/// allocate it for each.
const MAX_KEPT: usize = 96 * 1024;

impl AsFd for NonblockingWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::fcntl::OFlag;
    use nix::unistd::{pipe2, read};

    use super::*;

    #[test]
    fn unsent_bytes_arrive_in_order() {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let mut outgoing = NonblockingWriter::pipe(writer);
        let pieces: Vec<Vec<u8>> = (0..100u8).map(|piece| vec![piece; 3000]).collect();
        for piece in &pieces {
            outgoing.send(piece).unwrap();
        }
        assert!(
            outgoing.is_blocked() && outgoing.take_had_to_wait() && !outgoing.take_had_to_wait()
        );
        let (mut received, mut buffer) = (Vec::new(), [0; 5000]);
        while let Ok(count) = read(&reader, &mut buffer) {
            received.extend_from_slice(&buffer[..count]);
            outgoing.flush().unwrap();
        }
        assert!(!outgoing.is_blocked());
        assert_eq!(received, pieces.concat());
    }

    #[test]
    fn unsent_bytes_are_dropped_when_the_reader_closes() {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let mut outgoing = NonblockingWriter::pipe(writer);
        outgoing.send(&[7; 100_000]).unwrap();
        assert!(outgoing.is_blocked() && !outgoing.is_broken());
        drop(reader);
        assert!(outgoing.flush().is_err());
        assert!(!outgoing.is_blocked() && outgoing.is_broken());
        assert!(outgoing.send(b"more").is_err());
        assert!(!outgoing.is_blocked());
    }
}
