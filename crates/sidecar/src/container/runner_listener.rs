//! The socket that the runner of a container connects to.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aifo_process::{accept, bind_unix};
use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{Backlog, getsockopt, listen};
use nix::unistd::getuid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::kind::SOCKET;
use crate::socket::on_reactor;

/// A listening socket for one connection, in its own directory. Its file is removed on drop.
#[derive(Debug)]
pub(crate) struct RunnerListener {
    fd: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl RunnerListener {
    pub(crate) fn bind(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join(SOCKET);
        // A failed start may have left the file.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let fd = bind_unix(&path)?;
        listen(&fd, Backlog::new(1)?)?;
        Ok(RunnerListener { fd: on_reactor(fd, Interest::READABLE)?, path })
    }

    /// Waits for the runner connection. Rejects processes of other users: the runner has the caller's
    /// uid on the host, whatever its uid in the container.
    pub(crate) async fn accept_runner(self) -> io::Result<OwnedFd> {
        loop {
            match accept(self.fd.as_fd()) {
                Ok(connection) => {
                    let peer = getsockopt(&connection, PeerCredentials)?;
                    if peer.uid() == getuid().as_raw() {
                        return Ok(connection);
                    }
                    tracing::warn!(
                        uid = peer.uid(),
                        "rejected a connection from another user while waiting for the runner"
                    );
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
