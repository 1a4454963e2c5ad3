//! Handing fds to another process over a unix socket.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

use crate::sys;

/// What one read brought.
#[derive(Debug)]
pub struct Received {
    /// How many bytes; 0 is the end of the stream.
    pub bytes: usize,
    /// The fds that came with them, close-on-exec, in the sender's order.
    pub fds: Vec<OwnedFd>,
}

/// Sends all of `bytes`, a few as a rule, and fds with them, without blocking.
///
/// Errors: EAGAIN when the peer reads too slowly and nothing was sent; EMSGSIZE in the unheard-of
/// case that only a part was taken, after which the stream is of no use.
pub fn send_with_fds(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> nix::Result<()> {
    let fds: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let rights = [ControlMessage::ScmRights(&fds)];
    let iov = [IoSlice::new(bytes)];
    let sent = sendmsg::<UnixAddr>(socket.as_raw_fd(), &iov, &rights, flags, None)?;
    if sent == bytes.len() { Ok(()) } else { Err(Errno::EMSGSIZE) }
}

/// Reads bytes and at most `max` fds, without blocking.
///
/// Errors: EAGAIN when nothing is there; EPROTO when more fds came, all of which are closed. (A
/// plain `read` would close them silently.)
pub fn receive_with_fds(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    max: usize,
) -> nix::Result<Received> {
    // Room for as many as the kernel lets anyone send, so that none is ever cut off and leaked.
    let mut space = nix::cmsg_space!([i32; SCM_MAX_FD]);
    let mut iov = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut iov, Some(&mut space), flags)?;
    let mut fds = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = control {
            fds.extend(sys::own_received(received));
        }
    }
    if fds.len() > max {
        return Err(Errno::EPROTO);
    }
    Ok(Received { bytes: message.bytes, fds })
}

/// The most fds one message can carry (unix(7)).
const SCM_MAX_FD: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_fd_crosses_with_its_byte() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send_with_fds(ours.as_fd(), b"x", &[writer.as_fd()]).unwrap();
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
    fn nothing_there_end_and_too_many() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        let empty = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap_err();
        assert_eq!(empty, Errno::EAGAIN);

        let fds = [ours.as_raw_fd(), theirs.as_raw_fd(), ours.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let iov = [IoSlice::new(b"x")];
        sendmsg::<UnixAddr>(ours.as_raw_fd(), &iov, &rights, MsgFlags::empty(), None).unwrap();
        let smuggled = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap_err();
        assert_eq!(smuggled, Errno::EPROTO);

        drop(ours);
        let end = receive_with_fds(theirs.as_fd(), &mut buffer, 2).unwrap();
        assert_eq!((end.bytes, end.fds.is_empty()), (0, true));
    }
}
