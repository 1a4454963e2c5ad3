//! A client connection: accepted in its stack, or relayed from there.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use tokio::net::TcpStream;

/// A connection that another process has accepted in a stack, and relays.
pub struct RelayedConnection {
    /// One end of a pair of stream sockets; the relay has the other one. It becomes non-blocking.
    pub socket: OwnedFd,
    /// The address that the client dialled.
    pub dialled: SocketAddr,
    /// The client address.
    pub peer: SocketAddr,
    /// Set before the gateway closes the socket, if the client must see a reset and not an end.
    pub reset: Arc<AtomicBool>,
}

impl fmt::Debug for RelayedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RelayedConnection { dialled, peer, .. } = self;
        f.debug_struct("RelayedConnection").field("dialled", dialled).field("peer", peer).finish()
    }
}

/// A client connection.
pub(crate) struct Client {
    /// Of a relayed connection a socket of another family, which reads, writes and shuts down alike.
    pub(crate) stream: TcpStream,
    pub(crate) dialled: SocketAddr,
    pub(crate) peer: SocketAddr,
    reset: Option<Arc<AtomicBool>>,
}

impl Client {
    /// `None` if the client is gone.
    pub(crate) fn accepted(stream: TcpStream, peer: SocketAddr) -> Option<Client> {
        let dialled = stream.local_addr().ok()?;
        Some(Client { stream, dialled, peer, reset: None })
    }

    pub(crate) fn relayed(connection: RelayedConnection) -> io::Result<Client> {
        let RelayedConnection { socket, dialled, peer, reset } = connection;
        let stream = std::net::TcpStream::from(socket);
        stream.set_nonblocking(true)?;
        Ok(Client { stream: TcpStream::from_std(stream)?, dialled, peer, reset: Some(reset) })
    }

    /// Makes the end of the connection a failure for the client.
    pub(crate) fn reset(&self) {
        match &self.reset {
            Some(reset) => reset.store(true, Ordering::Relaxed),
            None => drop(self.stream.set_zero_linger()),
        }
    }
}
