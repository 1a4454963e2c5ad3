//! The state of a relayed stack's connections (`spec/runner.md#connections-of-a-stack`).

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_wire::{MAX_NET_CONNECTIONS, NetFlow, NetFlowError};
use tokio::sync::mpsc;

/// A client of a [`RelayedStack`](crate::RelayedStack).
#[derive(Debug)]
pub enum StackEvent {
    /// A client has connected.
    Connected(StackConnection),
    /// A datagram for DNS.
    Query {
        /// Its sender.
        peer: SocketAddrV4,
        /// The datagram.
        data: Vec<u8>,
    },
}

/// A client connection.
#[derive(Debug)]
pub struct StackConnection {
    /// A stream socket, non-blocking.
    pub socket: OwnedFd,
    /// The address that the client dialled.
    pub dialled: SocketAddrV4,
    /// The client address.
    pub peer: SocketAddrV4,
    /// If set when the socket is closed, the client connection is reset.
    pub reset: Arc<AtomicBool>,
}

/// The receivers of the frames of a stack.
#[derive(Debug)]
pub(crate) struct StackTable {
    /// The largest number of a connection so far.
    last: u32,
    connections: HashMap<u32, Entry>,
    pub(crate) events: mpsc::Sender<StackEvent>,
    /// The receivers of the connections to mirrors, by port.
    pub(crate) listeners: HashMap<u16, mpsc::Sender<StackConnection>>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) flow: NetFlow,
    /// Bounded by the credit.
    received: mpsc::UnboundedSender<Received>,
}

/// A frame for the task of a connection.
#[derive(Debug)]
pub(crate) enum Received {
    Bytes(Vec<u8>),
    End,
    Reset,
    Credit,
}

/// The table, shared with the tasks of connections.
#[derive(Debug, Default)]
pub(crate) struct SharedStackTable(Mutex<Option<StackTable>>);

impl SharedStackTable {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<StackTable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all receivers: the runner is lost.
    pub(crate) fn clear(&self) {
        *self.lock() = None;
    }
}

impl StackTable {
    pub(crate) fn new(events: mpsc::Sender<StackEvent>) -> Self {
        let (connections, listeners) = (HashMap::new(), HashMap::new());
        StackTable { last: 0, connections, events, listeners }
    }

    /// Adds a connection. Errors: the number is not new, or there are too many.
    pub(crate) fn open(
        &mut self,
        connection: u32,
    ) -> Result<mpsc::UnboundedReceiver<Received>, NetFlowError> {
        if connection <= self.last || self.connections.len() >= MAX_NET_CONNECTIONS {
            return Err(NetFlowError);
        }
        self.last = connection;
        let (received, receiver) = mpsc::unbounded_channel();
        self.connections.insert(connection, Entry { flow: NetFlow::default(), received });
        Ok(receiver)
    }

    pub(crate) fn entry(&mut self, connection: u32) -> Result<&mut Entry, NetFlowError> {
        self.connections.get_mut(&connection).ok_or(NetFlowError)
    }

    /// Returns a connection, or `None` for one that is closed: the runner may send these frames before it
    /// has received this side's last one. Errors: it never existed.
    pub(crate) fn past_entry(
        &mut self,
        connection: u32,
    ) -> Result<Option<&mut Entry>, NetFlowError> {
        match self.connections.get_mut(&connection) {
            None if connection > self.last => Err(NetFlowError),
            entry => Ok(entry),
        }
    }

    /// Passes a connection on. `false` if nothing takes it.
    pub(crate) fn accept(&self, connection: StackConnection) -> bool {
        let dialled = connection.dialled;
        match self.listeners.get(&dialled.port()).filter(|_| *dialled.ip() == Ipv4Addr::LOCALHOST) {
            Some(listener) => listener.try_send(connection).is_ok(),
            None => self.events.try_send(StackEvent::Connected(connection)).is_ok(),
        }
    }

    pub(crate) fn forget_closed(&mut self, connection: u32) {
        if self.connections.get(&connection).is_some_and(|entry| entry.flow.is_closed()) {
            self.connections.remove(&connection);
        }
    }
}

impl Entry {
    pub(crate) fn pass(&self, received: Received) {
        // The task may have ended.
        let _ = self.received.send(received);
    }
}
