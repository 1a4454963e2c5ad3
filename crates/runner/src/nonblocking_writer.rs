//! Buffered output to a descriptor without blocking.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use aifo_wire::Frame;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::write;

/// The writer of the control connection, shared with tunnelled clients.
pub(crate) type SharedWriter = Rc<RefCell<NonblockingWriter>>;

/// A writable descriptor with its unsent bytes.
#[derive(Debug)]
pub(crate) struct NonblockingWriter {
    fd: OwnedFd,
    kind: FdKind,
    unsent: Vec<u8>,
    /// How many bytes of `unsent` are already sent.
    sent: usize,
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
    pub(crate) fn socket(fd: OwnedFd) -> Self {
        NonblockingWriter::new(fd, FdKind::Socket)
    }

    pub(crate) fn pipe(fd: OwnedFd) -> Self {
        NonblockingWriter::new(fd, FdKind::Pipe)
    }

    fn new(fd: OwnedFd, kind: FdKind) -> Self {
        NonblockingWriter {
            fd,
            kind,
            unsent: Vec::new(),
            sent: 0,
            had_to_wait: false,
            is_closed_by_peer: false,
        }
    }

    /// Returns whether bytes are pending because the peer reads too slowly.
    pub(crate) fn is_blocked(&self) -> bool {
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
        self.unsent.extend_from_slice(rest);
        Ok(())
    }

    pub(crate) fn send_frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.send(&bytes)
    }

    /// Sends pending bytes as far as there is room.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut unsent = std::mem::take(&mut self.unsent);
        while self.sent < unsent.len() {
            match self.try_send(unsent.get(self.sent..).unwrap_or_default())? {
                0 => {
                    self.unsent = std::mem::take(&mut unsent);
                    return Ok(());
                }
                taken => self.sent += taken,
            }
        }
        // Pending bytes are rare, so their buffer is freed.
        self.sent = 0;
        Ok(())
    }

    /// Sends what the descriptor takes now and returns the number of bytes.
    fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let sent = match self.kind {
            _ if self.is_closed_by_peer => Err(Errno::EPIPE),
            FdKind::Socket => send(self.fd.as_raw_fd(), bytes, flags),
            FdKind::Pipe => write(&self.fd, bytes),
        };
        match sent {
            Ok(taken) => Ok(taken),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => {
                (self.is_closed_by_peer, self.sent) = (true, 0);
                self.unsent = Vec::new();
                Err(errno.into())
            }
        }
    }
}

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
