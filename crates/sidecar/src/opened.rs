//! The replies to requests for sockets of a network stack, whose runner passes them or relays their
//! connections.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aifo_wire::{Frame, MAX_NET_CONNECTIONS, NetFlowError, SocketResult};
use nix::sys::stat::fstat;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::control::{ControlConnection, PendingSocket};
use crate::stack_table::StackConnection;

/// The requested socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SocketRequest {
    /// A listener at this port of 127.0.0.1.
    Bind(u16),
    /// A connection.
    Connect,
}

/// A socket that the runner has opened.
#[derive(Debug)]
pub(crate) enum OpenedSocket {
    /// It passed the socket, which is not checked yet.
    Passed(OwnedFd),
    /// It relays the connections of a listener.
    Listening(RelayedListener),
    /// It relays a connection.
    Connected(OwnedFd, Arc<AtomicBool>),
}

/// A listener whose connections are accepted here, or come in frames of a runner.
#[derive(Debug)]
pub enum ConnectionListener {
    /// It is a socket.
    Socket(TcpListener),
    /// A runner has it.
    Relayed(RelayedListener),
}

/// A listener of a runner. Dropping it closes it; its connections go on.
#[derive(Debug)]
pub struct RelayedListener {
    port: u16,
    inode: u32,
    connections: mpsc::Receiver<StackConnection>,
    control: Arc<ControlConnection>,
}

/// A stream of bytes: a TCP connection, or one that a runner relays.
#[derive(Debug)]
pub struct ConnectionStream {
    /// The socket; of a relayed connection one of a pair, which reads, writes and shuts down alike.
    pub stream: TcpStream,
    /// If set when the socket is closed, the relayed connection is reset.
    reset: Option<Arc<AtomicBool>>,
    /// The client address, if it is known.
    pub peer: Option<SocketAddr>,
    /// The address that the client dialled, if it is known.
    pub dialled: Option<SocketAddr>,
}

/// Returns the receiver of the reply to a request, which sends the socket on.
pub(crate) fn pending(
    request: SocketRequest,
    sender: oneshot::Sender<Result<OpenedSocket, SocketResult>>,
) -> PendingSocket {
    PendingSocket(Box::new(move |control, (result, id), fds| {
        let opened = match (result, request) {
            (SocketResult::Passed, _) if control.passes_sockets() => {
                fds.pop_front().map(OpenedSocket::Passed).ok_or(SocketResult::Failed)
            }
            (SocketResult::Passed, SocketRequest::Bind(port)) => {
                Ok(OpenedSocket::Listening(control.relayed_listener(port, id)?))
            }
            (SocketResult::Passed, SocketRequest::Connect) => control.relayed_connection(id)?,
            (failed, _) => Err(failed),
        };
        // The requester may have stopped waiting, which closes the socket.
        let _ = sender.send(opened);
        Ok(())
    }))
}

impl ControlConnection {
    fn relayed_listener(
        self: &Arc<Self>,
        port: u16,
        inode: u32,
    ) -> Result<RelayedListener, NetFlowError> {
        let (sender, connections) = mpsc::channel(MAX_NET_CONNECTIONS);
        let mut table = self.stack().lock();
        table.as_mut().ok_or(NetFlowError)?.listeners.insert(port, sender);
        Ok(RelayedListener { port, inode, connections, control: Arc::clone(self) })
    }

    /// Relays a connection from now on. Errors in the result: there is no descriptor for it.
    fn relayed_connection(
        self: &Arc<Self>,
        connection: u32,
    ) -> Result<Result<OpenedSocket, SocketResult>, NetFlowError> {
        let mut table = self.stack().lock();
        let table = table.as_mut().ok_or(NetFlowError)?;
        let received = table.open(connection)?;
        let mut opened = Err(SocketResult::Failed);
        self.relay_to(table, connection, received, |socket, reset, _| {
            opened = Ok(OpenedSocket::Connected(socket, reset));
            true
        });
        Ok(opened)
    }
}

impl ConnectionListener {
    /// Uses a listener, which must not block.
    pub fn new(listener: StdListener) -> io::Result<Self> {
        TcpListener::from_std(listener).map(ConnectionListener::Socket)
    }

    /// Returns the inode of the socket, as [`Listener`](aifo_wire::Listener) has it.
    pub fn inode(&self) -> u32 {
        match self {
            ConnectionListener::Socket(socket) => {
                let inode = fstat(socket.as_fd()).map(|stat| stat.st_ino).unwrap_or(0);
                u32::try_from(inode).unwrap_or(0)
            }
            ConnectionListener::Relayed(listener) => listener.inode,
        }
    }

    /// Accepts a connection. Errors: as of `accept`, or the runner was lost. Cancel-safe.
    pub async fn accept(&mut self) -> io::Result<ConnectionStream> {
        match self {
            ConnectionListener::Socket(listener) => {
                let (stream, peer) = listener.accept().await?;
                let dialled = stream.local_addr().ok();
                Ok(ConnectionStream { stream, reset: None, peer: Some(peer), dialled })
            }
            ConnectionListener::Relayed(listener) => {
                let connection = listener.connections.recv().await;
                ConnectionStream::relayed(connection.ok_or(io::ErrorKind::NotConnected)?)
            }
        }
    }
}

impl Drop for RelayedListener {
    fn drop(&mut self) {
        if let Some(table) = self.control.stack().lock().as_mut() {
            table.listeners.remove(&self.port);
        }
        self.control.send(&Frame::Unbind { port: self.port });
        // The runner may have sent further ones.
        self.connections.close();
        while let Ok(connection) = self.connections.try_recv() {
            connection.reset.store(true, Ordering::Relaxed);
        }
    }
}

impl ConnectionStream {
    /// Uses a TCP connection.
    pub fn tcp(stream: TcpStream) -> Self {
        ConnectionStream { stream, reset: None, peer: None, dialled: None }
    }

    /// Uses a connection of a [`RelayedStack`](crate::RelayedStack). Errors: as of registering it.
    pub fn relayed(connection: StackConnection) -> io::Result<Self> {
        let StackConnection { socket, dialled, peer, reset } = connection;
        let mut stream = ConnectionStream::of_pair(socket, reset)?;
        (stream.peer, stream.dialled) = (Some(peer.into()), Some(dialled.into()));
        Ok(stream)
    }

    /// Uses one end of a pair of stream sockets. They are of another family than TCP, but read, write and
    /// shut down alike.
    pub(crate) fn of_pair(socket: OwnedFd, reset: Arc<AtomicBool>) -> io::Result<Self> {
        let stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
        Ok(ConnectionStream { stream, reset: Some(reset), peer: None, dialled: None })
    }

    /// Has the connection be reset when it is closed.
    pub fn reset_on_close(&self) {
        match &self.reset {
            Some(reset) => reset.store(true, Ordering::Relaxed),
            // It may be closed already.
            None => drop(self.stream.set_zero_linger()),
        }
    }
}
