//! Where a container's runner comes to us: a socket for one connection.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aifo_process::{UnixAddress, accept};
use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, bind, getsockopt, listen, socket,
};
use nix::unistd::getuid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::kind::SOCKET;
use crate::socket::on_reactor;

/// A listening socket in a folder of its own. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct RunnerListener {
    fd: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl RunnerListener {
    /// Listens in `folder`, which is made for it.
    pub(super) fn bind(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(SOCKET);
        // Of a container that came up no further than this.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        let address = UnixAddress::new(&path)?;
        bind(fd.as_raw_fd(), &address.address)?;
        listen(&fd, Backlog::new(1)?)?;
        Ok(RunnerListener { fd: on_reactor(fd, Interest::READABLE)?, path })
    }

    /// Waits for the one who comes. Only processes of the caller's user are let in: the runner runs as
    /// that, whatever its user is called in its container.
    pub(super) async fn accept_runner(self) -> io::Result<OwnedFd> {
        loop {
            match accept(self.fd.as_fd()) {
                Ok(connection) => {
                    let peer = getsockopt(&connection, PeerCredentials)?;
                    if peer.uid() == getuid().as_raw() {
                        return Ok(connection);
                    }
                    tracing::warn!(uid = peer.uid(), "a stranger came instead of a runner");
                }
                Err(Errno::EAGAIN) => self.fd.readable().await?.clear_ready(),
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for RunnerListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
