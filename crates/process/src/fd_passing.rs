//! Handing fds to another process over a unix socket.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

use crate::sys;

/// What one read brought.
#[derive(Debug)]
pub struct Received {
    /// How many bytes; 0 is the end of the stream.
    pub bytes: usize,
    /// The fds that came with them, close-on-exec, in the sender's order.
    pub fds: Vec<OwnedFd>,
}

/// What to do about a peer that reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Wait until all is taken, unless the socket itself is non-blocking.
    Blocking,
    /// Send what is taken at once, or fail with EAGAIN.
    NonBlocking,
}

/// Sends bytes over a stream socket, and returns how many were taken. The fds travel with the first
/// of them, so they are sent once any was taken, and the rest goes without. Without fds the socket
/// may be of any family.
///
/// Errors: EAGAIN when nothing was sent; EINVAL for fds without a byte or more than 253; EPIPE
/// when the peer is gone (no SIGPIPE comes).
pub fn send_with_fds(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    mode: SendMode,
) -> nix::Result<usize> {
    let fds: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    if bytes.is_empty() && !fds.is_empty() {
        return Err(Errno::EINVAL);
    }
    let flags = match mode {
        SendMode::Blocking => MsgFlags::MSG_NOSIGNAL,
        SendMode::NonBlocking => MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
    };
    let rights = [ControlMessage::ScmRights(&fds)];
    let rights = if fds.is_empty() { &[] } else { rights.as_slice() };
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None)
}

/// Reads bytes from a stream socket and at most `max` fds, without blocking. A read ends where a
/// message with fds does, so they are those of one message; bytes sent before it may come along.
///
/// Errors: EAGAIN when nothing is there; EPROTO when more fds came or some were lost, because our
/// own table of fds is full, and all that came are closed. (A plain `read` would close them
/// silently.)
pub fn receive_with_fds(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    max: usize,
) -> nix::Result<Received> {
    let message = sys::recvmsg(socket, buffer)?;
    if message.is_truncated || message.fds.len() > max {
        return Err(Errno::EPROTO);
    }
    Ok(Received { bytes: message.bytes, fds: message.fds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_fd_arrives_with_its_byte() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        assert_eq!(
            send_with_fds(ours.as_fd(), b"x", &[writer.as_fd()], SendMode::NonBlocking),
            Ok(1)
        );
        drop(writer);
        let mut buffer = [0; 8];
        let mut received = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap();
        assert_eq!((received.bytes, &buffer[..1]), (1, &b"x"[..]));
        let mut passed = std::io::PipeWriter::from(received.fds.pop().unwrap());
        passed.write_all(b"through").unwrap();
        drop(passed);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn each_message_keeps_its_own_fds() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fds = [ours.as_fd(); 3];
        for (bytes, count) in [(b"ab", 1), (b"cd", 0), (b"ef", 3), (b"gh", 2)] {
            assert_eq!(
                send_with_fds(ours.as_fd(), bytes, &fds[..count], SendMode::Blocking),
                Ok(2)
            );
        }
        let read = |length| {
            let mut buffer = [0; 8];
            let received = receive_with_fds(theirs.as_fd(), &mut buffer[..length], 3).unwrap();
            (buffer[..received.bytes].to_vec(), received.fds.len())
        };
        assert_eq!(read(1), (b"a".to_vec(), 1), "the first byte brings them");
        assert_eq!(read(8), (b"bcdef".to_vec(), 3));
        assert_eq!(read(8), (b"gh".to_vec(), 2));
    }

    #[test]
    fn empty_socket_end_of_stream_and_too_many_fds() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        let empty = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap_err();
        assert_eq!(empty, Errno::EAGAIN);

        let (reader, writer) = std::io::pipe().unwrap();
        let fds = [ours.as_fd(), theirs.as_fd(), reader.as_fd()];
        send_with_fds(ours.as_fd(), b"x", &fds, SendMode::Blocking).unwrap();
        drop(reader);
        let too_many = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap_err();
        assert_eq!(too_many, Errno::EPROTO);
        let unread = (&writer).write(b"x").unwrap_err();
        assert_eq!(unread.kind(), std::io::ErrorKind::BrokenPipe, "all of them are closed");

        let without_a_byte = send_with_fds(ours.as_fd(), b"", &[ours.as_fd()], SendMode::Blocking);
        assert_eq!(without_a_byte, Err(Errno::EINVAL));
        drop(ours);
        let end = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap();
        assert_eq!((end.bytes, end.fds.is_empty()), (0, true));
        let gone = send_with_fds(theirs.as_fd(), b"x", &[], SendMode::Blocking);
        assert_eq!(gone, Err(Errno::EPIPE));
    }

    #[test]
    fn a_full_socket_takes_a_part_and_then_nothing() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let much = vec![0; 16 << 20];
        let taken = send_with_fds(ours.as_fd(), &much, &[], SendMode::NonBlocking).unwrap();
        assert!(taken > 0 && taken < much.len(), "{taken}");
        let full = send_with_fds(ours.as_fd(), &much, &[], SendMode::NonBlocking);
        assert_eq!(full, Err(Errno::EAGAIN));
    }

    #[test]
    fn bytes_alone_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        assert_eq!(send_with_fds(ours.as_fd(), b"x", &[], SendMode::Blocking), Ok(1));
        drop(ours);
        let mut buffer = [0; 8];
        for expected in [1, 0] {
            // Across the loopback a byte may take a moment.
            theirs.peek(&mut buffer).unwrap();
            let received = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap();
            assert_eq!((received.bytes, received.fds.len()), (expected, 0));
        }
    }
}
