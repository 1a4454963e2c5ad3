//! The way to a runner: a socket on which descriptors come along, or two pipes that carry bytes alone.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aifo_process::{SendMode, send_with_fds};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{read, write};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::socket::{Socket, on_reactor};

/// A connected control connection on the reactor. One reader and one writer at a time.
#[derive(Debug)]
pub(crate) enum Link {
    Socket(Socket),
    Pipes(Pipes),
}

/// Two pipes, one each way.
#[derive(Debug)]
pub(crate) struct Pipes {
    reader: AsyncFd<OwnedFd>,
    /// `None` once nothing more is to be said: to close it is how a runner learns of that.
    writer: Mutex<Option<AsyncFd<OwnedFd>>>,
    /// Nothing more is to be heard.
    read_closed: Notify,
}

impl Link {
    pub(crate) fn socket(fd: OwnedFd) -> io::Result<Self> {
        Ok(Link::Socket(Socket::new(fd)?))
    }

    /// Two pipes, which do not block from now on.
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

    /// Whether descriptors come along.
    pub(crate) fn takes_descriptors(&self) -> bool {
        matches!(self, Link::Socket(_))
    }

    /// Sends a part of `bytes`, as much as there is room for at once, with `fds` if the link takes
    /// any. Errors: EAGAIN if there is none; anything else means that the runner is gone.
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

    /// Waits until there may be room. It can be wrong; the next attempt tells. Cancel-safe.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Link::Socket(socket) => socket.writable().await,
            Link::Pipes(pipes) => {
                std::future::poll_fn(|context| match &*pipes.writer() {
                    Some(writer) => writer.poll_write_ready(context).map(|ready| {
                        // Forgotten before the next attempt, so an event in between is never lost.
                        ready.map(|mut ready| ready.clear_ready())
                    }),
                    None => std::task::Poll::Ready(Err(Errno::EPIPE.into())),
                })
                .await
            }
        }
    }

    /// Reads what is there, at least one byte; 0 is the end. Cancel-safe.
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

    /// Ends one direction, or both.
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
