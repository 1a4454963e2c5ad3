//! Non-blocking transmission of frames over the connection to the proxy.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_runner::NonblockingWriter;
use aifo_wire::{DATA_HEAD, Frame, Stream, data_head};
use nix::poll::{PollFlags, PollTimeout};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use crate::connection;
use crate::polling::poll_fds;

/// A connection with its queue of unsent frames.
#[derive(Debug)]
pub(crate) struct FrameConnection {
    socket: NonblockingWriter,
}

impl FrameConnection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        FrameConnection { socket: NonblockingWriter::socket(socket) }
    }

    pub(crate) fn push(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.socket.pending().extend(&bytes);
    }

    /// Queues a data frame whose payload `read` writes directly into the send buffer, at most
    /// `room` bytes. Returns its length; 0 queues nothing.
    pub(crate) fn push_data(
        &mut self,
        stream: Stream,
        room: usize,
        read: impl FnOnce(&mut [u8]) -> nix::Result<usize>,
    ) -> nix::Result<usize> {
        let space = self.socket.pending().spare(DATA_HEAD + room);
        let Some((head, rest)) = space.split_at_mut_checked(DATA_HEAD) else { return Ok(0) };
        let count = read(rest.get_mut(..room).unwrap_or_default())?;
        if count > 0 {
            head.copy_from_slice(&data_head(stream, count));
            self.socket.pending().commit(DATA_HEAD + count);
        }
        Ok(count)
    }

    /// Sends as much of the queue as the socket accepts.
    pub(crate) fn flush(&mut self) {
        // A response may still be readable after an error; the next read finds out.
        let _ = self.socket.flush();
    }

    /// Returns whether the queue is long enough that no more input should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.socket.pending_len() >= MAX_PENDING
    }

    pub(crate) fn receive(&self, space: &mut [u8]) -> nix::Result<usize> {
        connection::receive(self.socket.as_fd(), space)
    }

    pub(crate) fn poll_interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        let writing =
            if self.socket.is_blocked() { PollFlags::POLLOUT } else { PollFlags::empty() };
        (self.socket.as_fd(), PollFlags::POLLIN | writing)
    }

    /// Returns whether the peer has not yet read all data that was sent, however little.
    ///
    /// The kernel does not report that amount. But a socket with the smallest send buffer is not
    /// writable while two messages are unread.
    pub(crate) fn has_unread_data(&self) -> bool {
        if self.socket.is_blocked() {
            return true;
        }
        let size = getsockopt(&self.socket, sockopt::SndBuf);
        let Ok(size) = size else { return false };
        // The kernel raises 0 to its minimum.
        let _ = setsockopt(&self.socket, sockopt::SndBuf, &0);
        let [ready] =
            poll_fds([Some((self.socket.as_fd(), PollFlags::POLLOUT))], PollTimeout::ZERO);
        // SO_SNDBUF returns twice the value that was set.
        let _ = setsockopt(&self.socket, sockopt::SndBuf, &(size / 2));
        !ready.contains(PollFlags::POLLOUT)
    }
}

/// Queued bytes at which reading stops: a few frames, so that the socket is never idle.
const MAX_PENDING: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use nix::errno::Errno;

    const INT: Frame<'static> = Frame::Signal { number: 2 };

    #[test]
    fn unread_data_is_detected() {
        let (local, mut peer) = UnixStream::pair().unwrap();
        let mut connection = FrameConnection::new(local.into());
        let before = getsockopt(&connection.socket, sockopt::SndBuf).unwrap();
        for _ in 0..3 {
            connection.push(&INT);
            connection.flush();
        }
        assert!(connection.has_unread_data());
        peer.read_exact(&mut [0; 18]).unwrap();
        assert!(!connection.has_unread_data());
        assert_eq!(getsockopt(&connection.socket, sockopt::SndBuf), Ok(before), "restored");
    }

    #[test]
    fn queued_frames_arrive_complete_and_in_order() {
        let (local, mut peer) = UnixStream::pair().unwrap();
        let mut connection = FrameConnection::new(local.into());
        let fill = |space: &mut [u8]| {
            space.fill(7);
            Ok(space.len())
        };
        let mut frames = 0;
        while !connection.is_full() {
            assert_eq!(connection.push_data(Stream::Stdin, 30_000, fill), Ok(30_000));
            frames += 1;
            connection.flush();
        }
        assert_eq!(
            connection.push_data(Stream::Stdin, 10, |_| Err(Errno::EAGAIN)),
            Err(Errno::EAGAIN)
        );
        assert_eq!(connection.push_data(Stream::Stdin, 10, |_| Ok(0)), Ok(0), "no frame queued");
        connection.push(&INT);

        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).unwrap();
            bytes
        });
        while connection.poll_interest().1.contains(PollFlags::POLLOUT) {
            poll_fds([Some(connection.poll_interest())], PollTimeout::NONE);
            connection.flush();
        }
        drop(connection);
        let bytes = reader.join().unwrap();
        let mut expected = Vec::new();
        for _ in 0..frames {
            Frame::Data { stream: Stream::Stdin, data: &[7; 30_000] }.encode(&mut expected);
        }
        INT.encode(&mut expected);
        assert!(bytes == expected, "{} bytes instead of {}", bytes.len(), expected.len());
    }

    #[test]
    fn a_closed_peer_empties_the_queue() {
        let (local, _) = UnixStream::pair().unwrap();
        let mut connection = FrameConnection::new(local.into());
        connection.push(&INT);
        connection.flush();
        assert!(!connection.poll_interest().1.contains(PollFlags::POLLOUT));
        assert_eq!(connection.receive(&mut [0; 8]), Ok(0));
    }
}
