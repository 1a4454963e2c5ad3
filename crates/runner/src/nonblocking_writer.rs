//! Bytes on their way out by an fd that never blocks us.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use aifo_wire::Frame;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::write;

/// The way to the proxy, which clients without a connection of their own share.
pub(crate) type SharedWriter = Rc<RefCell<NonblockingWriter>>;

/// A writable fd, with what it did not take yet.
#[derive(Debug)]
pub(crate) struct NonblockingWriter {
    fd: OwnedFd,
    kind: FdKind,
    unsent: Vec<u8>,
    /// How much of `unsent` is gone already.
    sent: usize,
    /// Something had to wait since this was last asked.
    had_to_wait: bool,
    /// Nobody reads any more.
    is_closed_by_peer: bool,
}

#[derive(Clone, Copy, Debug)]
enum FdKind {
    /// It may be somebody else's too, who decides whether it blocks.
    Socket,
    /// It is ours, and does not block.
    Pipe,
}

impl NonblockingWriter {
    /// Out by a socket, whether it blocks or not.
    pub(crate) fn socket(fd: OwnedFd) -> Self {
        NonblockingWriter::new(fd, FdKind::Socket)
    }

    /// Out by a pipe that does not block.
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

    /// The peer reads too slowly: something waits for room.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Nobody reads any more, and nothing is kept for them.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_closed_by_peer
    }

    /// Whether something had to wait since this was last asked.
    pub(crate) fn take_had_to_wait(&mut self) -> bool {
        std::mem::take(&mut self.had_to_wait)
    }

    /// Sends bytes, behind whatever still waits. Only what there is no room for at once is copied.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let taken = if self.is_blocked() { 0 } else { self.try_send(bytes)? };
        let rest = bytes.get(taken..).unwrap_or_default();
        self.had_to_wait |= !rest.is_empty();
        self.unsent.extend_from_slice(rest);
        Ok(())
    }

    /// Sends a frame, behind whatever still waits.
    pub(crate) fn send_frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.send(&bytes)
    }

    /// Sends what waits, as far as there is room.
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
        // What had to wait is rare; its memory is not kept for the next time.
        self.sent = 0;
        Ok(())
    }

    /// How many bytes there is room for now.
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
