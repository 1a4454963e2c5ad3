//! Where clients connect.

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
use nix::sys::socket::sockopt::{PeerCredentials, SndBuf, TcpNoDelay};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, bind, connect, getsockopt, listen, setsockopt,
    socket,
};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Uid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::client::{Client, ClientTransport};

/// A listening socket. A unix one is removed from the file system when this is dropped.
#[derive(Debug)]
pub struct Listener {
    fd: AsyncFd<OwnedFd>,
    endpoint: Endpoint,
    allowed: AllowedPeers,
}

/// Who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowedPeers {
    /// Whoever reaches a TCP address; the token is what counts.
    Anyone,
    /// Processes of one user. The socket's mode says the same; this holds even if it is changed.
    User(Uid),
}

/// Why nobody can connect there.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Something else listens at this path.
    #[error("'{}' is in use: another process listens there", .0.display())]
    InUse(PathBuf),
    /// The path exists and is no socket.
    #[error("'{}' exists and is not a socket; it is left alone", .0.display())]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot listen on {endpoint}: {source}")]
    System {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        source: io::Error,
    },
}

/// Bytes on their way to a client, as far as the system lets us have them: with room for several
/// chunks, proxy and client work at the same time instead of waking each other for each.
const SEND_BUFFER: usize = 1024 * 1024;

/// Connections the kernel holds while we are busy.
const BACKLOG: i32 = 512;

impl Listener {
    /// Listens on a unix socket with mode 0600, for processes of `user`, or on a TCP address, where
    /// port 0 lets the system choose. A socket file that nobody listens on any more is replaced.
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

    /// Where clients connect to, with the port that was chosen.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Waits for a connection. Errors are the system's (no more fds, say); trying again is right.
    pub(crate) async fn accept(&self) -> io::Result<Client> {
        loop {
            match accept(self.fd.as_fd()) {
                Ok(connection) => {
                    if let Some(client) = self.admit(connection)? {
                        return Ok(client);
                    }
                }
                Err(Errno::EAGAIN) => self.fd.readable().await?.clear_ready(),
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Lets a connection in, or closes it.
    fn admit(&self, connection: OwnedFd) -> io::Result<Option<Client>> {
        let transport = match self.allowed {
            AllowedPeers::Anyone => {
                // Small answers are written in pieces; none is to wait for an acknowledgement.
                setsockopt(&connection, TcpNoDelay, &true)?;
                ClientTransport::Tcp
            }
            AllowedPeers::User(user) => {
                let peer = Uid::from_raw(getsockopt(&connection, PeerCredentials)?.uid());
                if peer != user {
                    tracing::warn!(uid = %peer, "connection of another user refused");
                    return Ok(None);
                }
                ClientTransport::Unix
            }
        };
        setsockopt(&connection, SndBuf, &SEND_BUFFER)?;
        Ok(Some(Client::new(Socket::new(connection)?, transport)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Endpoint::Unix(path) = &self.endpoint {
            // Somebody may have cleaned up already.
            let _ = fs::remove_file(path);
        }
    }
}

fn bind_unix(path: &Path) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddress::new(path)?;
    // The socket is made with its mode; changing it afterwards would leave a gap. The mask is the
    // whole process's, which makes no file in these two lines.
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = bind(listener.as_raw_fd(), &address.address);
    umask(before);
    bound?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    Ok(listener)
}

/// Removes the socket file that a process left which was killed.
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
