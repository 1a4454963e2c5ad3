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
pub(crate) type Uplink = Rc<RefCell<Outgoing>>;

/// A writable fd, with what it did not take yet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    fd: OwnedFd,
    kind: Kind,
    waiting: Vec<u8>,
    /// How much of `waiting` is gone already.
    sent: usize,
    /// Something had to wait since this was last asked.
    stalled: bool,
    /// Nobody reads any more.
    broken: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It may be somebody else's too, who decides whether it blocks.
    Socket,
    /// It is ours, and does not block.
    Pipe,
}

impl Outgoing {
    /// Out by a socket, whether it blocks or not.
    pub(crate) fn socket(fd: OwnedFd) -> Self {
        Outgoing::new(fd, Kind::Socket)
    }

    /// Out by a pipe that does not block.
    pub(crate) fn pipe(fd: OwnedFd) -> Self {
        Outgoing::new(fd, Kind::Pipe)
    }

    fn new(fd: OwnedFd, kind: Kind) -> Self {
        Outgoing { fd, kind, waiting: Vec::new(), sent: 0, stalled: false, broken: false }
    }

    /// The peer reads too slowly: something waits for room.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Nobody reads any more, and nothing is kept for them.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether something had to wait since this was last asked.
    pub(crate) fn was_stalled(&mut self) -> bool {
        std::mem::take(&mut self.stalled)
    }

    /// Sends bytes, behind whatever still waits. Only what there is no room for at once is copied.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let taken = if self.is_blocked() { 0 } else { self.try_send(bytes)? };
        let rest = bytes.get(taken..).unwrap_or_default();
        self.stalled |= !rest.is_empty();
        self.waiting.extend_from_slice(rest);
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
        let mut waiting = std::mem::take(&mut self.waiting);
        while self.sent < waiting.len() {
            match self.try_send(waiting.get(self.sent..).unwrap_or_default())? {
                0 => {
                    self.waiting = std::mem::take(&mut waiting);
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
            _ if self.broken => Err(Errno::EPIPE),
            Kind::Socket => send(self.fd.as_raw_fd(), bytes, flags),
            Kind::Pipe => write(&self.fd, bytes),
        };
        match sent {
            Ok(taken) => Ok(taken),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(errno) => {
                (self.broken, self.sent) = (true, 0);
                self.waiting = Vec::new();
                Err(errno.into())
            }
        }
    }
}

impl AsFd for Outgoing {
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
    fn what_there_is_no_room_for_waits_and_arrives_whole() {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let mut outgoing = Outgoing::pipe(writer);
        let pieces: Vec<Vec<u8>> = (0..100u8).map(|piece| vec![piece; 3000]).collect();
        for piece in &pieces {
            outgoing.send(piece).unwrap();
        }
        assert!(outgoing.is_blocked() && outgoing.was_stalled() && !outgoing.was_stalled());
        let (mut received, mut buffer) = (Vec::new(), [0; 5000]);
        while let Ok(count) = read(&reader, &mut buffer) {
            received.extend_from_slice(&buffer[..count]);
            outgoing.flush().unwrap();
        }
        assert!(!outgoing.is_blocked());
        assert_eq!(received, pieces.concat());
    }

    #[test]
    fn nothing_is_kept_for_a_reader_that_has_gone() {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let mut outgoing = Outgoing::pipe(writer);
        outgoing.send(&[7; 100_000]).unwrap();
        assert!(outgoing.is_blocked() && !outgoing.is_broken());
        drop(reader);
        assert!(outgoing.flush().is_err());
        assert!(!outgoing.is_blocked() && outgoing.is_broken());
        assert!(outgoing.send(b"more").is_err());
        assert!(!outgoing.is_blocked());
    }
}
