//! The connection to the client of an exec.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_wire::{Frame, FrameError, FrameReader};

use crate::frame_socket::FrameSocket;
use crate::nonblocking_writer::SharedWriter;
use crate::poller::Poller;

#[derive(Debug)]
pub(crate) enum ClientConnection {
    /// The client's own connection, which the proxy has passed.
    Direct(FrameSocket),
    /// A connection that the proxy holds; its bytes travel in `Tunnel` frames.
    Tunnelled(Tunnel),
}

/// A client connection inside the control connection.
#[derive(Debug)]
pub(crate) struct Tunnel {
    serial: u32,
    writer: SharedWriter,
    incoming: FrameReader,
    /// `TunnelEnd` has arrived.
    ended: bool,
}

impl Tunnel {
    pub(crate) fn new(serial: u32, writer: SharedWriter) -> Self {
        Tunnel { serial, writer, incoming: FrameReader::for_client(), ended: false }
    }
}

impl ClientConnection {
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        match self {
            ClientConnection::Direct(socket) => socket.receive(bytes),
            ClientConnection::Tunnelled(tunnel) => tunnel.incoming.receive(bytes),
        }
    }

    pub(crate) fn receive_end(&mut self) {
        if let ClientConnection::Tunnelled(tunnel) = self {
            tunnel.ended = true;
        }
    }

    /// Reads available bytes. Returns `Ok(false)` if the client has left.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        match self {
            ClientConnection::Direct(socket) => socket.fill(),
            ClientConnection::Tunnelled(tunnel) => Ok(!tunnel.ended),
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        match self {
            ClientConnection::Direct(socket) => socket.next_frame(),
            ClientConnection::Tunnelled(tunnel) => tunnel.incoming.next_frame(),
        }
    }

    /// Returns whether bytes are pending, for this client or another that shares the control
    /// connection.
    pub(crate) fn is_blocked(&self) -> bool {
        match self {
            ClientConnection::Direct(socket) => socket.is_blocked(),
            ClientConnection::Tunnelled(tunnel) => tunnel.writer.borrow().is_blocked(),
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.send_encoded(&bytes)
    }

    /// Sends encoded frames, behind pending bytes.
    pub(crate) fn send_encoded(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            ClientConnection::Direct(socket) => socket.send_encoded(bytes),
            ClientConnection::Tunnelled(Tunnel { serial, writer, .. }) => {
                writer.borrow_mut().send_frame(&Frame::Tunnel { serial: *serial, data: bytes })
            }
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientConnection::Direct(socket) => socket.flush(),
            ClientConnection::Tunnelled(_) => Ok(()),
        }
    }

    /// Returns the socket of a direct connection, for epoll.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            ClientConnection::Direct(socket) => Some(socket.as_fd()),
            ClientConnection::Tunnelled(_) => None,
        }
    }

    pub(crate) fn close(self, poller: &Poller) {
        match self {
            // The proxy has a duplicate of the socket, so closing it does not remove it from epoll.
            ClientConnection::Direct(socket) => poller.remove(socket.as_fd()),
            ClientConnection::Tunnelled(Tunnel { serial, writer, .. }) => {
                // A closed control connection is detected elsewhere.
                let _ = writer.borrow_mut().send_frame(&Frame::TunnelEnd { serial });
            }
        }
    }
}
