//! Connections to the proxy.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use aifo_process::kernel::{self, Fd};
use aifo_process::{SendMode, UnixAddress, send_with_fds};
use aifo_types::Endpoint;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, connect, recv, socket};

pub(crate) fn open(endpoint: &Endpoint) -> io::Result<Fd> {
    match endpoint {
        Endpoint::Unix(path) => {
            match kernel::connect_unix(path.as_os_str().as_bytes()) {
                Err(Errno::ENAMETOOLONG) => {}
                connected => return Ok(connected?),
            }
            let address = UnixAddress::new(path)?;
            let flags = SockFlag::SOCK_CLOEXEC;
            let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
            loop {
                match connect(socket.as_raw_fd(), &address.address) {
                    Ok(()) => return Ok(socket.into()),
                    Err(Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Endpoint::Tcp { host, port, .. } => {
            Ok(OwnedFd::from(TcpStream::connect((host.as_str(), *port))?).into())
        }
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

pub(crate) fn send_request(socket: &impl AsFd, request: &[u8]) -> SendOutcome {
    let mut rest = request;
    while !rest.is_empty() {
        match send_with_fds(socket.as_fd(), rest, &[], SendMode::Blocking) {
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
