//! The listening socket.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use aifo_process::{UnixAddress, accept};
use aifo_sidecar::{Socket, on_reactor};
use aifo_types::Endpoint;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{PeerCredentials, TcpNoDelay};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, bind, connect, getsockopt, listen, setsockopt,
    socket,
};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Uid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::client::{Client, ClientTransport};

/// A listening socket. Dropping it removes the file of a unix socket.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
    endpoint: Endpoint,
    allowed: AllowedPeers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowedPeers {
    /// Every peer of a TCP address; the token authenticates it.
    Anyone,
    /// Processes of one user. The socket's mode also restricts this, but can be changed.
    User(Uid),
}

/// Why the socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens at this path.
    #[error("'{}' is in use: another process listens there", .0.display())]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("'{}' exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("cannot listen on {endpoint}: {source}")]
    System {
        /// The endpoint.
        endpoint: Endpoint,
        /// The system's error.
        source: io::Error,
    },
}

/// Connections that the kernel queues before `accept`.
const BACKLOG: i32 = 512;

impl Listener {
    /// Listens on a unix socket with mode 0600, for processes of `user`, or on a TCP address, where
    /// the system chooses the port for port 0. Replaces a socket file without a listener.
    pub fn bind(endpoint: &Endpoint, user: Uid) -> Result<Self, BindError> {
        let system = |source| BindError::System { endpoint: endpoint.clone(), source };
        let (fd, endpoint, allowed) = match endpoint {
            Endpoint::Unix(path) => {
                remove_stale(path)?;
                let fd = bind_unix(path).map_err(|errno| system(errno.into()))?;
                (fd, endpoint.clone(), AllowedPeers::User(user))
            }
            Endpoint::Tcp { host, port, .. } => {
                let listener = TcpListener::bind((host.as_str(), *port)).map_err(system)?;
                listener.set_nonblocking(true).map_err(system)?;
                let port = listener.local_addr().map_err(system)?.port();
                let endpoint = Endpoint::Tcp { host: host.clone(), port, prefix: String::new() };
                (listener.into(), endpoint, AllowedPeers::Anyone)
            }
        };
        let fd = on_reactor(fd, Interest::READABLE).map_err(system)?;
        Ok(Listener { fd, endpoint, allowed })
    }

    /// Returns the endpoint, with the chosen port.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits for a connection. Errors are the system's, for example too many open files; the caller may
    /// try again.
    pub(crate) async fn accept(&self) -> io::Result<Client> {
        loop {
            // Cleared only by the attempt that finds no connection, so none is left waiting.
            let mut ready = self.fd.readable().await?;
            match accept(self.fd.as_fd()) {
                Ok(connection) => {
                    if let Some(client) = self.admit(connection)? {
                        return Ok(client);
                    }
                }
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Accepts a connection of an allowed peer, or closes it.
    fn admit(&self, connection: OwnedFd) -> io::Result<Option<Client>> {
        let transport = match self.allowed {
            AllowedPeers::Anyone => {
                // Parts of a small response must not wait for an acknowledgement.
                setsockopt(&connection, TcpNoDelay, &true)?;
                ClientTransport::Tcp
            }
            AllowedPeers::User(user) => {
                let peer = Uid::from_raw(getsockopt(&connection, PeerCredentials)?.uid());
                if peer != user {
                    tracing::warn!(uid = %peer, "rejected a connection from another user");
                    return Ok(None);
                }
                ClientTransport::Unix
            }
        };
        Ok(Some(Client::new(Socket::new(connection), transport)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Endpoint::Unix(path) = &self.endpoint {
            // The file may have been removed already.
            let _ = fs::remove_file(path);
        }
    }
}

fn bind_unix(path: &Path) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddress::new(path)?;
    // A chmod after the bind would leave a gap. The mask is the whole process's; no other file is
    // created between these two lines.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = bind(listener.as_raw_fd(), &address.address);
    umask(before);
    bound?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    Ok(listener)
}

/// Removes the socket file of a killed process.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NotASocket(path.to_owned()));
    }
    let attempt = || -> nix::Result<()> {
        let client = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        connect(client.as_raw_fd(), &UnixAddress::new(path)?.address)
    };
    match attempt() {
        Err(Errno::ECONNREFUSED) => fs::remove_file(path).map_err(|source| BindError::System {
            endpoint: Endpoint::Unix(path.to_owned()),
            source,
        }),
        _ => Err(BindError::InUse(path.to_owned())),
    }
}
