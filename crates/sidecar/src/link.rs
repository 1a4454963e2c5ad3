//! The transport of a control connection: a socket that carries descriptors, or two pipes.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aifo_process::{Received, SendMode, send_with_fds};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{read, write};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::socket::{Socket, on_reactor};

/// A control connection's transport on the reactor. One reader and one writer at a time.
#[derive(Debug)]
pub(crate) enum Link {
    Socket(Socket),
    Pipes(Pipes),
}

#[derive(Debug)]
pub(crate) struct Pipes {
    reader: AsyncFd<OwnedFd>,
    /// `None` after shutdown. The runner reads the end of the stream.
    writer: Mutex<Option<AsyncFd<OwnedFd>>>,
    /// Notified when reading is shut down.
    read_closed: Notify,
}

impl Link {
    pub(crate) fn socket(fd: OwnedFd) -> Self {
        Link::Socket(Socket::new(fd))
    }

    /// Registers two pipes. Sets `O_NONBLOCK`.
    pub(crate) fn pipes(reader: OwnedFd, writer: OwnedFd) -> io::Result<Self> {
        for fd in [&reader, &writer] {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Link::Pipes(Pipes {
            reader: on_reactor(reader, Interest::READABLE)?,
            writer: Mutex::new(Some(on_reactor(writer, Interest::WRITABLE)?)),
            read_closed: Notify::new(),
        }))
    }

    pub(crate) fn takes_descriptors(&self) -> bool {
        matches!(self, Link::Socket(_))
    }

    /// Sends a part of `bytes` without waiting, with `fds` if the link takes descriptors, and returns the
    /// number of bytes. Errors: EAGAIN if there is no room; any other means that the runner is lost.
    pub(crate) fn try_send(&self, bytes: &[u8], fds: &[OwnedFd]) -> nix::Result<usize> {
        match self {
            Link::Socket(socket) => {
                let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                send_with_fds(socket.as_fd(), bytes, &fds, SendMode::NonBlocking)
            }
            Link::Pipes(pipes) => match &*pipes.writer() {
                Some(writer) => write(writer.get_ref(), bytes),
                None => Err(Errno::EPIPE),
            },
        }
    }

    /// Waits until there may be room. Can return early. Cancel-safe.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Link::Socket(socket) => socket.writable().await,
            Link::Pipes(pipes) => {
                std::future::poll_fn(|context| match &*pipes.writer() {
                    Some(writer) => writer.poll_write_ready(context).map(|ready| {
                        // Cleared before the next attempt, so that no event in between is lost.
                        ready.map(|mut ready| ready.clear_ready())
                    }),
                    None => std::task::Poll::Ready(Err(Errno::EPIPE.into())),
                })
                .await
            }
        }
    }

    /// Waits for bytes and reads them; 0 at the end. Cancel-safe.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Link::Socket(socket) => socket.receive(buffer).await,
            Link::Pipes(pipes) => {
                tokio::select! {
                    read = pipes.receive(buffer) => read,
                    () = pipes.read_closed.notified() => Ok(0),
                }
            }
        }
    }

    /// As [`Link::receive`], with at most `max` descriptors. Errors: EPROTO if more came.
    pub(crate) async fn receive_with_fds(
        &self,
        buffer: &mut [u8],
        max: usize,
    ) -> io::Result<Received> {
        match self {
            Link::Socket(socket) => socket.receive_with_fds(buffer, max).await,
            Link::Pipes(_) => {
                let bytes = self.receive(buffer).await?;
                Ok(Received { bytes, fds: Vec::new() })
            }
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        match self {
            Link::Socket(socket) => socket.shutdown(how),
            Link::Pipes(pipes) => {
                if how != Shutdown::Read {
                    *pipes.writer() = None;
                }
                if how != Shutdown::Write {
                    pipes.read_closed.notify_one();
                }
            }
        }
    }
}

impl Pipes {
    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match read(self.reader.get_ref(), buffer) {
                Err(Errno::EAGAIN) => self.reader.readable().await?.clear_ready(),
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn writer(&self) -> MutexGuard<'_, Option<AsyncFd<OwnedFd>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
