//! A connected stream socket, unix or TCP, without blocking.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use aifo_process::{Received, receive_with_fds};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags, UnixAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A stream socket. Every call tries first and waits only if necessary. All are cancel-safe unless
/// noted.
///
/// The socket is registered with the current reactor when a call first has to wait: most requests
/// arrive together with their connection. One reader and one writer at a time. The socket closes when
/// this is dropped.
#[derive(Debug)]
pub struct Socket {
    /// Registered only for reading: a socket registered for writing wakes its owner each time the peer
    /// reads, several times per call and without use. Dropped before the descriptor.
    reader: OnceLock<AsyncFd<Watched>>,
    /// A duplicate, registered for writing when a write first has to wait.
    writer: OnceLock<AsyncFd<OwnedFd>>,
    fd: OwnedFd,
}

/// The number of a socket's descriptor.
#[derive(Debug)]
struct Watched(RawFd);

impl Socket {
    /// Takes a connected socket.
    pub fn new(fd: OwnedFd) -> Self {
        Socket { reader: OnceLock::new(), writer: OnceLock::new(), fd }
    }

    /// Takes the socket off the reactor.
    pub fn into_fd(self) -> OwnedFd {
        let Socket { reader, fd, .. } = self;
        drop(reader);
        fd
    }

    /// Waits for bytes and reads them; 0 at the end of the stream.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match socket::recv(self.fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                // Cleared before the next attempt, so that no event in between is lost.
                Err(Errno::EAGAIN) => self.reader()?.readable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// As [`Socket::receive`], with at most `max` descriptors. Errors: EPROTO if there were more or the
    /// system cut some off; then all are closed.
    pub async fn receive_with_fds(&self, buffer: &mut [u8], max: usize) -> io::Result<Received> {
        loop {
            match receive_with_fds(self.as_fd(), buffer, max) {
                Err(Errno::EAGAIN) => self.reader()?.readable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Sends a part of `bytes`, at least one byte if there are any, and returns the number of bytes.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send_parts(&[IoSlice::new(bytes)]).await
    }

    /// Sends a part of the concatenated `parts` and returns the number of bytes.
    pub async fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match self.try_send_parts(parts) {
                Err(Errno::EAGAIN) => self.writable().await?,
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Sends all of `bytes`. Not cancel-safe: an unknown part may have been sent.
    pub async fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self.send(rest).await?;
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends without waiting and returns the number of bytes; 0 if the socket is full.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.try_send_parts(&[IoSlice::new(bytes)]) {
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            result => Ok(result?),
        }
    }

    /// Waits until there may be room. Can return early.
    pub async fn writable(&self) -> io::Result<()> {
        let writer = match self.writer.get() {
            Some(writer) => writer,
            None => {
                let duplicate = self.as_fd().try_clone_to_owned()?;
                let writer = on_reactor(duplicate, Interest::WRITABLE)?;
                self.writer.get_or_init(|| writer)
            }
        };
        // Cleared before the next attempt, so that no event in between is lost.
        writer.writable().await?.clear_ready();
        Ok(())
    }

    /// Waits until the peer has closed both directions.
    ///
    /// A unix peer that shut down only its sending half is still connected (RDHUP, not HUP). On TCP this
    /// waits for a reset.
    pub async fn hangup(&self) -> io::Result<()> {
        loop {
            // The socket is not registered for writing, so only the end of writing makes it ready.
            let mut guard = self.reader()?.ready(Interest::WRITABLE).await?;
            if guard.ready().is_write_closed() {
                return Ok(());
            }
            guard.clear_ready();
        }
    }

    /// Waits until the peer has closed at least its sending half. Reads nothing.
    pub async fn ended(&self) -> io::Result<()> {
        loop {
            let mut guard = self.reader()?.ready(Interest::READABLE).await?;
            if guard.ready().is_read_closed() {
                return Ok(());
            }
            guard.clear_ready();
        }
    }

    /// Shuts down one direction, or both, for every holder of the socket.
    pub fn shutdown(&self, how: Shutdown) {
        let how = match how {
            Shutdown::Read => socket::Shutdown::Read,
            Shutdown::Write => socket::Shutdown::Write,
            Shutdown::Both => socket::Shutdown::Both,
        };
        // Fails only if the peer has closed the connection.
        let _ = socket::shutdown(self.fd.as_raw_fd(), how);
    }

    fn reader(&self) -> io::Result<&AsyncFd<Watched>> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        // As in `on_reactor`: the descriptor stays open while it is registered.
        #[allow(deprecated)]
        let reader = AsyncFd::with_interest(Watched(self.fd.as_raw_fd()), Interest::READABLE)?;
        Ok(self.reader.get_or_init(|| reader))
    }

    fn try_send_parts(&self, parts: &[IoSlice<'_>]) -> nix::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        socket::sendmsg::<UnixAddr>(self.fd.as_raw_fd(), parts, &[], flags, None)
    }
}

/// Registers a descriptor with the current reactor.
pub fn on_reactor(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // Deprecated because a type could replace its descriptor while it is registered. An `OwnedFd` does
    // not, so this safe constructor is sound here; its successor is an unsafe function.
    #[allow(deprecated)]
    AsyncFd::with_interest(fd, interest)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}
