//! Connections to the proxy.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use aifo_process::UnixAddress;
use aifo_types::Endpoint;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, connect, recv, send, socket};

pub(crate) fn open(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    match endpoint {
        Endpoint::Unix(path) => {
            let address = UnixAddress::new(path)?;
            let flags = SockFlag::SOCK_CLOEXEC;
            let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
            loop {
                match connect(socket.as_raw_fd(), &address.address) {
                    Ok(()) => return Ok(socket),
                    Err(Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Endpoint::Tcp { host, port, .. } => Ok(TcpStream::connect((host.as_str(), *port))?.into()),
    }
}

/// How much of a request was sent.
pub(crate) enum SendOutcome {
    Complete,
    /// The proxy closed the connection early; a response may still be readable.
    Partial,
    /// The proxy closed the connection before any byte was sent: nothing ran.
    Nothing,
}

pub(crate) fn send_request(socket: &OwnedFd, request: &[u8]) -> SendOutcome {
    let mut rest = request;
    while !rest.is_empty() {
        match send(socket.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(_) if rest.len() == request.len() => return SendOutcome::Nothing,
            Err(_) => return SendOutcome::Partial,
        }
    }
    SendOutcome::Complete
}

pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<usize> {
    loop {
        match recv(socket.as_raw_fd(), buffer, MsgFlags::empty()) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}
