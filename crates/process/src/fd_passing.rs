//! Passing descriptors over unix sockets.
//!
//! Proves `spec/runner.md#descriptors`.

use std::os::fd::{BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use crate::sys;

/// The result of one read.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes; 0 is the end of the stream.
    pub bytes: usize,
    /// The descriptors that came with the bytes, close-on-exec, in the sender's order.
    pub fds: Vec<OwnedFd>,
}

/// Behaviour when the socket's buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Wait until all bytes are sent, unless the socket itself is non-blocking.
    Blocking,
    /// Send the bytes that fit, or fail with EAGAIN.
    NonBlocking,
}

/// Sends bytes over a stream socket and returns how many were sent. The descriptors travel with the
/// first byte, so the caller sends the rest without them. Without descriptors the socket may be of
/// any family.
///
/// Errors: EAGAIN if no byte was sent; EINVAL for descriptors without a byte, or more than 253;
/// EPIPE if the peer has closed (no SIGPIPE is raised).
pub fn send_with_fds(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    mode: SendMode,
) -> nix::Result<usize> {
    if bytes.is_empty() && !fds.is_empty() {
        return Err(Errno::EINVAL);
    }
    let flags = match mode {
        SendMode::Blocking => MsgFlags::MSG_NOSIGNAL,
        SendMode::NonBlocking => MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
    };
    sys::kernel::sendmsg(socket, bytes, fds, flags.bits())
}

/// Reads bytes and at most `max` descriptors from a stream socket, without blocking. A read never
/// spans two messages with descriptors, but may include bytes sent before the first.
///
/// Errors: EAGAIN if there is nothing to read; EPROTO if more than `max` descriptors came, or some
/// were lost because this process's descriptor table is full. All that came are then closed. (A
/// plain `read` would close them silently.)
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
        let _guard = crate::reaper::lock_children();
        let (sender, receiver) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        assert_eq!(
            send_with_fds(sender.as_fd(), b"x", &[writer.as_fd()], SendMode::NonBlocking),
            Ok(1)
        );
        drop(writer);
        let mut buffer = [0; 8];
        let mut received = receive_with_fds(receiver.as_fd(), &mut buffer, 2).unwrap();
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
        let _guard = crate::reaper::lock_children();
        let (sender, receiver) = UnixStream::pair().unwrap();
        let fds = [sender.as_fd(); 3];
        for (bytes, count) in [(b"ab", 1), (b"cd", 0), (b"ef", 3), (b"gh", 2)] {
            assert_eq!(
                send_with_fds(sender.as_fd(), bytes, &fds[..count], SendMode::Blocking),
                Ok(2)
            );
        }
        let read = |length| {
            let mut buffer = [0; 8];
            let received = receive_with_fds(receiver.as_fd(), &mut buffer[..length], 3).unwrap();
            (buffer[..received.bytes].to_vec(), received.fds.len())
        };
        assert_eq!(read(1), (b"a".to_vec(), 1), "the first byte carries them");
        assert_eq!(read(8), (b"bcdef".to_vec(), 3));
        assert_eq!(read(8), (b"gh".to_vec(), 2));
    }

    #[test]
    fn empty_socket_end_of_stream_and_too_many_fds() {
        let _guard = crate::reaper::lock_children();
        let (sender, receiver) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        let empty = receive_with_fds(receiver.as_fd(), &mut buffer, 2).unwrap_err();
        assert_eq!(empty, Errno::EAGAIN);

        let (reader, writer) = std::io::pipe().unwrap();
        let fds = [sender.as_fd(), receiver.as_fd(), reader.as_fd()];
        send_with_fds(sender.as_fd(), b"x", &fds, SendMode::Blocking).unwrap();
        drop(reader);
        let too_many = receive_with_fds(receiver.as_fd(), &mut buffer, 2).unwrap_err();
        assert_eq!(too_many, Errno::EPROTO);
        let unread = (&writer).write(b"x").unwrap_err();
        assert_eq!(unread.kind(), std::io::ErrorKind::BrokenPipe, "all of them are closed");

        let without_a_byte =
            send_with_fds(sender.as_fd(), b"", &[sender.as_fd()], SendMode::Blocking);
        assert_eq!(without_a_byte, Err(Errno::EINVAL));
        drop(sender);
        let end = receive_with_fds(receiver.as_fd(), &mut buffer, 2).unwrap();
        assert_eq!((end.bytes, end.fds.is_empty()), (0, true));
        let gone = send_with_fds(receiver.as_fd(), b"x", &[], SendMode::Blocking);
        assert_eq!(gone, Err(Errno::EPIPE));
    }

    #[test]
    fn a_full_socket_takes_a_part_and_then_nothing() {
        let _guard = crate::reaper::lock_children();
        let (sender, _receiver) = UnixStream::pair().unwrap();
        let much = vec![0; 16 << 20];
        let taken = send_with_fds(sender.as_fd(), &much, &[], SendMode::NonBlocking).unwrap();
        assert!(taken > 0 && taken < much.len(), "{taken}");
        let full = send_with_fds(sender.as_fd(), &much, &[], SendMode::NonBlocking);
        assert_eq!(full, Err(Errno::EAGAIN));
    }

    #[test]
    fn bytes_alone_over_tcp() {
        let _guard = crate::reaper::lock_children();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        assert_eq!(send_with_fds(sender.as_fd(), b"x", &[], SendMode::Blocking), Ok(1));
        drop(sender);
        let mut buffer = [0; 8];
        for expected in [1, 0] {
            // A byte may take a moment over the loopback interface.
            receiver.peek(&mut buffer).unwrap();
            let received = receive_with_fds(receiver.as_fd(), &mut buffer, 2).unwrap();
            assert_eq!((received.bytes, received.fds.len()), (expected, 0));
        }
    }
}
