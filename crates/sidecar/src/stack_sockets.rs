//! Sockets of a network stack that its runner opens on request (`spec/network.md#mirrors`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use aifo_wire::{Frame, Loopback, SocketResult};
use nix::sys::socket::SockType;
use nix::sys::socket::sockopt::{AcceptConn, SockType as TypeOfSocket};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::control::ControlConnection;
use crate::listeners::{check_one, option};
use crate::opened::{ConnectionListener, ConnectionStream, OpenedSocket, SocketRequest, pending};

/// Opens sockets in a network stack. Cheap to clone; it does not keep the runner connection open.
#[derive(Clone, Debug)]
pub struct StackSockets {
    control: Arc<ControlConnection>,
}

/// Why there is no socket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// Another socket has the address.
    #[error("the port is in use")]
    InUse,
    /// No socket listens on the port.
    #[error("connection refused")]
    Refused,
    /// Any other error.
    #[error("{0}")]
    Failed(String),
}

/// Time for a listener with a full queue to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl StackSockets {
    pub(crate) fn new(control: Arc<ControlConnection>) -> Self {
        StackSockets { control }
    }

    /// Binds a port of the stack's 127.0.0.1 and listens on it.
    pub async fn bind(&self, port: u16) -> Result<ConnectionListener, SocketError> {
        let frame = |serial| Frame::Bind { serial, port };
        let fd = match self.open(SocketRequest::Bind(port), frame).await? {
            OpenedSocket::Passed(fd) => fd,
            OpenedSocket::Listening(listener) => return Ok(ConnectionListener::Relayed(listener)),
            OpenedSocket::Connected(..) => return Err(another_socket()),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        check_one(fd.as_fd(), SockType::Stream, address).map_err(SocketError::Failed)?;
        let listener = ConnectionListener::new(TcpListener::from(fd));
        listener.map_err(|error| SocketError::Failed(error.to_string()))
    }

    /// Connects to a port of the stack's 127.0.0.1, or of ::1 if that refuses.
    pub async fn connect(&self, port: u16) -> Result<ConnectionStream, SocketError> {
        match self.connect_to(Loopback::V4, port).await {
            Err(SocketError::Refused) => self.connect_to(Loopback::V6, port).await,
            result => result,
        }
    }

    async fn connect_to(
        &self,
        address: Loopback,
        port: u16,
    ) -> Result<ConnectionStream, SocketError> {
        let frame = |serial| Frame::Connect { serial, address, port };
        let opened =
            tokio::time::timeout(CONNECT_TIMEOUT, self.open(SocketRequest::Connect, frame));
        let fd = match opened.await.map_err(|_| timed_out())?? {
            OpenedSocket::Passed(fd) => fd,
            OpenedSocket::Connected(socket, reset) => {
                let stream = ConnectionStream::of_pair(socket, reset);
                return stream.map_err(|error| SocketError::Failed(error.to_string()));
            }
            OpenedSocket::Listening(_) => return Err(another_socket()),
        };
        if option(fd.as_fd(), TypeOfSocket).map_err(SocketError::Failed)? != SockType::Stream {
            return Err(SocketError::Failed("it is no stream socket".to_owned()));
        }
        if option(fd.as_fd(), AcceptConn).map_err(SocketError::Failed)? {
            return Err(SocketError::Failed("it listens".to_owned()));
        }
        let ip: IpAddr = match address {
            Loopback::V4 => Ipv4Addr::LOCALHOST.into(),
            Loopback::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connected(fd, (ip, port).into()));
        connected.await.map_err(|_| timed_out())?.map(ConnectionStream::tcp)
    }

    /// Has the runner report the stack listeners once.
    pub fn report_listeners(&self) {
        self.control.send(&Frame::Watch { interval: 0, background: 0 });
    }

    async fn open(
        &self,
        request: SocketRequest,
        frame: impl FnOnce(u32) -> Frame<'static>,
    ) -> Result<OpenedSocket, SocketError> {
        let lost = || SocketError::Failed("its runner was lost".to_owned());
        let (sender, opened) = oneshot::channel();
        let pending = pending(request, sender);
        let serial = self.control.expect_socket(pending).ok_or_else(lost)?;
        self.control.send(&frame(serial));
        opened.await.map_err(|_| lost())?.map_err(|result| match result {
            SocketResult::InUse => SocketError::InUse,
            SocketResult::Refused => SocketError::Refused,
            _ => SocketError::Failed("its runner could not open a socket".to_owned()),
        })
    }
}

fn timed_out() -> SocketError {
    SocketError::Failed("timed out".to_owned())
}

fn another_socket() -> SocketError {
    SocketError::Failed("the runner opened another socket".to_owned())
}

/// Waits until a socket is connected, and checks its addresses: nothing that the runner passed is
/// assumed.
async fn connected(fd: OwnedFd, address: SocketAddr) -> Result<TcpStream, SocketError> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => SocketError::Refused,
        _ => SocketError::Failed(error.to_string()),
    };
    let stream = std::net::TcpStream::from(fd);
    stream.set_nonblocking(true).map_err(failed)?;
    let stream = TcpStream::from_std(stream).map_err(failed)?;
    stream.writable().await.map_err(failed)?;
    if let Some(error) = stream.take_error().map_err(failed)? {
        return Err(failed(error));
    }
    // The standard library reads only addresses of IP sockets.
    let peer = stream.peer_addr().map_err(failed)?;
    if stream.local_addr().map_err(failed)? == peer {
        // The kernel chose the destination as the source, so nothing listens there.
        return Err(SocketError::Refused);
    }
    if peer != address {
        return Err(SocketError::Failed(format!("it is connected to {peer}")));
    }
    Ok(stream)
}
