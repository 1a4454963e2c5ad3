//! Accepts the connections of this network stack and relays them in frames, where no descriptors pass
//! (`spec/runner.md#connections-of-a-stack`).

mod connection;
mod requests;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use aifo_wire::{Frame, MAX_DATAGRAM, MAX_NET_CONNECTIONS, NetFlowError, NetFrame};
use nix::sys::epoll::EpollFlags;

use self::connection::Connection;
use crate::control::ControlConnection;
use crate::listeners::bind_listeners;
use crate::poller::{EventSource, Poller, ReadyEvent, StackFd};

/// The sockets of a network stack and their clients.
#[derive(Debug)]
pub(crate) struct StackRelay {
    /// `None` in a stack with the engine network.
    dns: Option<UdpSocket>,
    /// DNS over TCP first.
    listeners: Vec<TcpListener>,
    /// Those of mirrors, by port.
    mirrors: BTreeMap<u16, TcpListener>,
    /// Connections in progress, by the serial of the request.
    connecting: HashMap<u32, TcpStream>,
    connections: HashMap<u32, Connection>,
    last: u32,
    /// Whether the listeners and the datagram socket are in epoll.
    is_accepting: bool,
    /// A connection waits for room on the control connection.
    is_waiting: bool,
    buffer: Vec<u8>,
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
        StackRelay::of(Some(dns.into()), bound.map(TcpListener::from).collect())
    }

    /// Returns a relay for requests only, in a stack that has no listeners of its own.
    pub(crate) fn without_listeners() -> io::Result<Self> {
        StackRelay::of(None, Vec::new())
    }

    fn of(dns: Option<UdpSocket>, listeners: Vec<TcpListener>) -> io::Result<Self> {
        if let Some(dns) = &dns {
            dns.set_nonblocking(true)?;
        }
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        Ok(StackRelay {
            dns,
            listeners,
            mirrors: BTreeMap::new(),
            connecting: HashMap::new(),
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
            StackFd::Listener(_) | StackFd::Mirror(_) => self.accept(fd, poller, control)?,
            StackFd::Connecting(serial) => self.finish_connect(serial, poller, control)?,
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

    /// Handles the proxy frame. Errors in the result: the connection does not exist, or has ended.
    pub(crate) fn receive(
        &mut self,
        frame: NetFrame<'_>,
        poller: &Poller,
        control: &mut ControlConnection,
    ) -> io::Result<Result<(), NetFlowError>> {
        let (id, received) = match frame {
            NetFrame::Answer { peer, data } => {
                // The client may be gone, and DNS over UDP has no promise.
                let _ = self.dns.as_ref().map(|dns| dns.send_to(data, peer));
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
            let Some(Ok((length, peer))) =
                self.dns.as_ref().map(|dns| dns.recv_from(&mut datagram))
            else {
                return;
            };
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
        listener: StackFd,
        poller: &Poller,
        control: &mut ControlConnection,
    ) -> io::Result<()> {
        for _ in 0..MAX_ACCEPTS {
            if !self.may_accept(control) {
                return Ok(());
            }
            let listening = match listener {
                StackFd::Listener(index) => self.listeners.get(usize::from(index)),
                StackFd::Mirror(port) => self.mirrors.get(&port),
                _ => None,
            };
            let Some(listening) = listening else { return Ok(()) };
            // A client that has left, or a full descriptor table: the next event reports it again.
            let Ok((socket, SocketAddr::V4(peer))) = listening.accept() else { return Ok(()) };
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
        let connection = self.insert(socket);
        control.send(&Frame::Net(NetFrame::Open { connection, dialled, peer }));
    }

    /// Adds a connection and returns its number.
    fn insert(&mut self, socket: TcpStream) -> u32 {
        self.last = self.last.saturating_add(1);
        self.connections.insert(self.last, Connection::new(socket));
        self.last
    }

    /// Returns whether another connection may be opened. Numbers are never reused.
    fn may_accept(&self, control: &ControlConnection) -> bool {
        !control.is_blocked() && self.has_room()
    }

    /// Returns whether another connection may exist.
    fn has_room(&self) -> bool {
        let count = self.connections.len().saturating_add(self.connecting.len());
        self.last < u32::MAX && count < MAX_NET_CONNECTIONS
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
        if let Some(dns) = &self.dns {
            change(dns.as_fd(), StackFd::Dns)?;
        }
        for (port, listener) in &self.mirrors {
            change(listener.as_fd(), StackFd::Mirror(*port))?;
        }
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

#[cfg(test)]
mod tests;
