//! A connected stream socket, unix or TCP, without blocking.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use aifo_process::{Received, receive_with_fds};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags, UnixAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A stream socket on the reactor. Every call first tries, and waits only if it has to; all are
/// cancel-safe: what was not reported was not taken or sent.
///
/// One reader and one writer at a time. The socket closes when this is dropped.
#[derive(Debug)]
pub struct Socket {
    /// Registered for reading alone: a socket that is registered for writing too wakes us whenever
    /// its peer has read something, which is several times per call and never of interest.
    fd: AsyncFd<OwnedFd>,
    /// The same socket once more, registered for writing when a write first had to wait.
    writer: OnceLock<AsyncFd<OwnedFd>>,
}

impl Socket {
    /// Registers a connected socket with the current reactor.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Socket { fd: on_reactor(fd, Interest::READABLE)?, writer: OnceLock::new() })
    }

    /// Takes the socket off the reactor: nothing that happens to it wakes us any more.
    pub fn into_fd(self) -> OwnedFd {
        self.fd.into_inner()
    }

    /// Reads what is there, at least one byte; 0 is the end of the stream.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match socket::recv(self.fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                // Forgotten before the next attempt, so an event in between is never lost.
                Err(Errno::EAGAIN) => self.fd.readable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// As [`Socket::receive`], with the fds that came along, at most `max`. Errors: EPROTO if there
    /// were more or the system cut some off; none is kept then.
    pub async fn receive_with_fds(&self, buffer: &mut [u8], max: usize) -> io::Result<Received> {
        loop {
            match receive_with_fds(self.as_fd(), buffer, max) {
                Err(Errno::EAGAIN) => self.fd.readable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Sends a part of `bytes`, at least one byte if there are any, and returns how many.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send_parts(&[IoSlice::new(bytes)]).await
    }

    /// Sends a part of the concatenation of `parts` and returns how many bytes.
    pub async fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match self.try_send_parts(parts) {
                Err(Errno::EAGAIN) => self.writable().await?,
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Sends all of `bytes`. Dropped before its end, it leaves an unknown part sent.
    pub async fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self.send(rest).await?;
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends what the socket takes at once; 0 if it is full.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.try_send_parts(&[IoSlice::new(bytes)]) {
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            result => Ok(result?),
        }
    }

    /// Waits until the socket may take more. It can be wrong; the next send tells.
    pub async fn writable(&self) -> io::Result<()> {
        let writer = match self.writer.get() {
            Some(writer) => writer,
            None => {
                let duplicate = self.as_fd().try_clone_to_owned()?;
                let writer = on_reactor(duplicate, Interest::WRITABLE)?;
                self.writer.get_or_init(|| writer)
            }
        };
        // Forgotten before the send is tried again, so an event in between is never lost.
        writer.writable().await?.clear_ready();
        Ok(())
    }

    /// Waits until the peer has closed the connection, both ways.
    ///
    /// A unix peer that only shut down its sending half is still there (HUP against RDHUP); on TCP
    /// this is a reset.
    pub async fn hangup(&self) -> io::Result<()> {
        loop {
            // Not registered for writing, this can only become ready by the end of writing.
            let mut guard = self.fd.ready(Interest::WRITABLE).await?;
            if guard.ready().is_write_closed() {
                return Ok(());
            }
            guard.clear_ready();
        }
    }

    /// Waits until the peer has closed its sending half, at least. What it sent before stays unread.
    pub async fn ended(&self) -> io::Result<()> {
        loop {
            let mut guard = self.fd.ready(Interest::READABLE).await?;
            if guard.ready().is_read_closed() {
                return Ok(());
            }
            guard.clear_ready();
        }
    }

    /// Ends one direction, or both, for every holder of the socket.
    pub fn shutdown(&self, how: Shutdown) {
        let how = match how {
            Shutdown::Read => socket::Shutdown::Read,
            Shutdown::Write => socket::Shutdown::Write,
            Shutdown::Both => socket::Shutdown::Both,
        };
        // It can only fail because the peer was faster.
        let _ = socket::shutdown(self.fd.as_raw_fd(), how);
    }

    fn try_send_parts(&self, parts: &[IoSlice<'_>]) -> nix::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        socket::sendmsg::<UnixAddr>(self.fd.as_raw_fd(), parts, &[], flags, None)
    }
}

/// Registers an fd with the current reactor.
pub fn on_reactor(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // Deprecated because a type could change its fd under the reactor's feet. An `OwnedFd` is that
    // fd, so the safe constructor is sound here; its successor is an unsafe function.
    #[allow(deprecated)]
    AsyncFd::with_interest(fd, interest)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }
}
