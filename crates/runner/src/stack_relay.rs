//! Accepts the connections of this network stack and relays them in frames, where no descriptors pass
//! (`spec/runner.md#connections-of-a-stack`).

use std::collections::HashMap;
use std::io;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use aifo_wire::{
    Buffer, Frame, MAX_DATAGRAM, MAX_NET_CONNECTIONS, NetBytes, NetFlow, NetFlowError, NetFrame,
};
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Linger;

use crate::control::ControlConnection;
use crate::listeners::bind_listeners;
use crate::poller::{EventSource, Poller, ReadyEvent, StackFd};

/// The sockets of a network stack and their clients.
#[derive(Debug)]
pub(crate) struct StackRelay {
    dns: UdpSocket,
    /// DNS over TCP first.
    listeners: Vec<TcpListener>,
    connections: HashMap<u32, Connection>,
    last: u32,
    /// Whether the listeners and the datagram socket are in epoll.
    is_accepting: bool,
    /// A connection waits for room on the control connection.
    is_waiting: bool,
    buffer: Vec<u8>,
}

/// The connection of a client.
#[derive(Debug)]
struct Connection {
    /// `None` once it was closed; then only the peer's last frame is missing.
    socket: Option<TcpStream>,
    flow: NetFlow,
    /// Bytes for the client. The peer's credit bounds them.
    unsent: Buffer,
    /// The client has sent its last byte.
    has_read_all: bool,
    /// The client receives no more bytes.
    is_shut_down: bool,
    /// Registered epoll events.
    registered: EpollFlags,
}

/// Bytes per read of a client.
const READ_SIZE: usize = 32 * 1024;

/// Clients that are accepted at once; others have their turn first.
const MAX_ACCEPTS: usize = 64;

impl StackRelay {
    /// Binds the listeners for these ports. Errors: a port that is in use, or needs a capability.
    pub(crate) fn bind(ports: &[u16]) -> io::Result<Self> {
        let mut bound = bind_listeners(ports)?.into_iter();
        let dns = bound.next().ok_or(io::ErrorKind::NotConnected)?;
        StackRelay::of(dns.into(), bound.map(TcpListener::from).collect())
    }

    fn of(dns: UdpSocket, listeners: Vec<TcpListener>) -> io::Result<Self> {
        dns.set_nonblocking(true)?;
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        Ok(StackRelay {
            dns,
            listeners,
            connections: HashMap::new(),
            last: 0,
            is_accepting: false,
            is_waiting: false,
            buffer: vec![0; READ_SIZE],
        })
    }

    /// Handles an event of one of its sockets.
    pub(crate) fn on_ready(
        &mut self,
        event: ReadyEvent,
        fd: StackFd,
        poller: &Poller,
        control: &mut ControlConnection,
    ) -> io::Result<()> {
        match fd {
            StackFd::Dns => self.receive_queries(control),
            StackFd::Listener(index) => self.accept(usize::from(index), poller, control)?,
            StackFd::Connection(id) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    if event.writable {
                        connection.flush(id, control);
                    }
                    if event.readable {
                        connection.read(id, &mut self.buffer, control);
                    }
                }
                self.update(id, poller, control)?;
            }
        }
        self.update_accepting(poller, control)
    }

    /// Handles a frame of the proxy. Errors in the result: the connection does not exist, or has ended.
    pub(crate) fn receive(
        &mut self,
        frame: NetFrame<'_>,
        poller: &Poller,
        control: &mut ControlConnection,
    ) -> io::Result<Result<(), NetFlowError>> {
        let (id, received) = match frame {
            NetFrame::Answer { peer, data } => {
                // The client may be gone, and DNS over UDP has no promise.
                let _ = self.dns.send_to(data, peer);
                return Ok(Ok(()));
            }
            NetFrame::Open { .. } | NetFrame::Query { .. } => return Ok(Err(NetFlowError)),
            NetFrame::Data { connection, data } => {
                (connection, self.with(connection, |it| it.receive_data(connection, data, control)))
            }
            NetFrame::End { connection } => {
                (connection, self.with(connection, |it| it.receive_end(connection, control)))
            }
            NetFrame::Reset { connection } => {
                let received = self.with(connection, |it| it.receive_reset(connection, control));
                (connection, self.ignore_if_closed(connection, received))
            }
            NetFrame::Credit { connection, bytes } => {
                let received = self.with(connection, |it| it.flow.receive_credit(bytes));
                (connection, self.ignore_if_closed(connection, received))
            }
        };
        if received.is_ok() {
            self.update(id, poller, control)?;
            self.update_accepting(poller, control)?;
        }
        Ok(received)
    }

    /// Lets everything that waited continue, once the control connection has room again.
    pub(crate) fn on_room(
        &mut self,
        poller: &Poller,
        control: &mut ControlConnection,
    ) -> io::Result<()> {
        if std::mem::take(&mut self.is_waiting) {
            for id in self.connections.keys().copied().collect::<Vec<_>>() {
                self.update(id, poller, control)?;
            }
        }
        self.update_accepting(poller, control)
    }

    fn with(
        &mut self,
        id: u32,
        act: impl FnOnce(&mut Connection) -> Result<(), NetFlowError>,
    ) -> Result<(), NetFlowError> {
        self.connections.get_mut(&id).map_or(Err(NetFlowError), act)
    }

    /// The peer may send these before it has received this side's last frame.
    fn ignore_if_closed(
        &self,
        id: u32,
        received: Result<(), NetFlowError>,
    ) -> Result<(), NetFlowError> {
        match received {
            Err(_) if id <= self.last && !self.connections.contains_key(&id) => Ok(()),
            received => received,
        }
    }

    fn receive_queries(&mut self, control: &mut ControlConnection) {
        let mut datagram = [0; MAX_DATAGRAM + 1];
        for _ in 0..MAX_ACCEPTS {
            // The next event reports an error again.
            let Ok((length, peer)) = self.dns.recv_from(&mut datagram) else { return };
            let data = datagram.get(..length).filter(|data| data.len() <= MAX_DATAGRAM);
            if let (Some(data), SocketAddr::V4(peer)) = (data, peer) {
                control.send(&Frame::Net(NetFrame::Query { peer, data }));
            }
            if control.is_blocked() {
                return;
            }
        }
    }

    fn accept(
        &mut self,
        index: usize,
        poller: &Poller,
        control: &mut ControlConnection,
    ) -> io::Result<()> {
        for _ in 0..MAX_ACCEPTS {
            if !self.may_accept(control) {
                return Ok(());
            }
            let Some(listener) = self.listeners.get(index) else { return Ok(()) };
            // A client that has left, or a full descriptor table: the next event reports it again.
            let Ok((socket, SocketAddr::V4(peer))) = listener.accept() else { return Ok(()) };
            let Ok(SocketAddr::V4(dialled)) = socket.local_addr() else { continue };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = socket.set_nodelay(true);
            self.open(socket, dialled, peer, control);
            self.update(self.last, poller, control)?;
        }
        Ok(())
    }

    fn open(
        &mut self,
        socket: TcpStream,
        dialled: SocketAddrV4,
        peer: SocketAddrV4,
        control: &mut ControlConnection,
    ) {
        self.last = self.last.saturating_add(1);
        let connection = self.last;
        control.send(&Frame::Net(NetFrame::Open { connection, dialled, peer }));
        self.connections.insert(connection, Connection::new(socket));
    }

    /// Returns whether another connection may be opened. Numbers are never reused.
    fn may_accept(&self, control: &ControlConnection) -> bool {
        let has_number = self.last < u32::MAX;
        !control.is_blocked() && has_number && self.connections.len() < MAX_NET_CONNECTIONS
    }

    /// Adds the listeners to epoll, or removes them: a listener that is not accepted from stays ready.
    fn update_accepting(&mut self, poller: &Poller, control: &ControlConnection) -> io::Result<()> {
        let may_accept = self.may_accept(control);
        if may_accept == self.is_accepting {
            return Ok(());
        }
        self.is_accepting = may_accept;
        let change = |fd, source| match may_accept {
            true => poller.add(fd, EventSource::Stack(source)),
            false => {
                poller.remove(fd);
                Ok(())
            }
        };
        change(self.dns.as_fd(), StackFd::Dns)?;
        for (index, listener) in (0..).zip(&self.listeners) {
            change(listener.as_fd(), StackFd::Listener(index))?;
        }
        Ok(())
    }

    /// Updates what epoll waits for, and removes a connection that is closed.
    fn update(&mut self, id: u32, poller: &Poller, control: &ControlConnection) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.is_done() {
            self.connections.remove(&id);
            return Ok(());
        }
        let Some(socket) = &connection.socket else { return Ok(()) };
        let mut interest = EpollFlags::empty();
        if !connection.unsent.is_empty() {
            interest |= EpollFlags::EPOLLOUT;
        }
        if !connection.has_read_all && connection.flow.sendable() > 0 {
            match control.is_blocked() {
                true => self.is_waiting = true,
                false => interest |= EpollFlags::EPOLLIN,
            }
        }
        let source = EventSource::Stack(StackFd::Connection(id));
        poller.modify(socket.as_fd(), source, connection.registered, interest)?;
        connection.registered = interest;
        Ok(())
    }
}

impl Connection {
    fn new(socket: TcpStream) -> Self {
        Connection {
            socket: Some(socket),
            flow: NetFlow::default(),
            unsent: Buffer::new(),
            has_read_all: false,
            is_shut_down: false,
            registered: EpollFlags::empty(),
        }
    }

    /// Returns whether both sides have ended, and the client has all bytes.
    fn is_done(&self) -> bool {
        self.flow.is_closed() && (self.socket.is_none() || self.is_shut_down)
    }

    /// Reads bytes of the client and sends them.
    fn read(&mut self, connection: u32, buffer: &mut [u8], control: &mut ControlConnection) {
        let room = self.flow.sendable().min(buffer.len());
        let Some(socket) = self.socket.as_mut().filter(|_| room > 0 && !control.is_blocked())
        else {
            return;
        };
        match socket.read(&mut buffer[..room]) {
            Ok(0) => {
                self.has_read_all = true;
                if self.flow.end() {
                    control.send(&Frame::Net(NetFrame::End { connection }));
                }
            }
            Ok(length) => {
                self.flow.record_sent(length);
                let data = &buffer[..length];
                control.send(&Frame::Net(NetFrame::Data { connection, data }));
            }
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.reset(connection, control),
        }
    }

    /// Writes bytes to the client as far as it takes them, and its end behind the last one.
    fn flush(&mut self, connection: u32, control: &mut ControlConnection) {
        while let Some(socket) = self.socket.as_mut().filter(|_| !self.unsent.is_empty()) {
            match socket.write(self.unsent.as_slice()) {
                Ok(written) => {
                    self.unsent.consume(written);
                    if let Some(bytes) = self.flow.release(written) {
                        control.send(&Frame::Net(NetFrame::Credit { connection, bytes }));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.reset(connection, control),
            }
        }
        self.unsent.shrink(READ_SIZE);
        let has_all = self.flow.has_peer_ended() && self.unsent.is_empty();
        if let Some(socket) = self.socket.as_ref().filter(|_| has_all && !self.is_shut_down) {
            self.is_shut_down = true;
            // The client may be gone.
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Closes the client's connection so that it sees a failure, not an end.
    fn reset(&mut self, connection: u32, control: &mut ControlConnection) {
        if let Some(socket) = self.socket.take() {
            let _ = setsockopt(&socket, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 });
        }
        self.unsent = Buffer::new();
        self.registered = EpollFlags::empty();
        if self.flow.reset() {
            control.send(&Frame::Net(NetFrame::Reset { connection }));
        }
    }

    fn receive_data(
        &mut self,
        connection: u32,
        data: &[u8],
        control: &mut ControlConnection,
    ) -> Result<(), NetFlowError> {
        if self.flow.receive_data(data.len())? == NetBytes::Deliver {
            self.unsent.extend(data);
            self.flush(connection, control);
        }
        Ok(())
    }

    fn receive_end(
        &mut self,
        connection: u32,
        control: &mut ControlConnection,
    ) -> Result<(), NetFlowError> {
        self.flow.receive_end()?;
        self.flush(connection, control);
        Ok(())
    }

    fn receive_reset(
        &mut self,
        connection: u32,
        control: &mut ControlConnection,
    ) -> Result<(), NetFlowError> {
        self.flow.receive_reset()?;
        self.reset(connection, control);
        Ok(())
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests;
