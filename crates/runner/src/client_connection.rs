//! The client of an exec, wherever its connection ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_wire::{Frame, FrameError, FrameReader};

use crate::frame_socket::FrameSocket;
use crate::nonblocking_writer::SharedWriter;
use crate::poller::Poller;

/// Somebody who wants a tool's bytes and its ending.
#[derive(Debug)]
pub(crate) enum ClientConnection {
    /// On a connection of its own, which the proxy handed on.
    Direct(FrameSocket),
    /// Whose connection stays with the proxy: what is said on it travels in frames of the control
    /// connection.
    Tunnelled(Tunnel),
}

/// A connection that exists only in frames of another.
#[derive(Debug)]
pub(crate) struct Tunnel {
    serial: u32,
    writer: SharedWriter,
    incoming: FrameReader,
    /// The proxy has said that nothing more comes.
    ended: bool,
}

impl Tunnel {
    /// To the client of this exec.
    pub(crate) fn new(serial: u32, writer: SharedWriter) -> Self {
        Tunnel { serial, writer, incoming: FrameReader::of_client(), ended: false }
    }
}

impl ClientConnection {
    /// Takes bytes that the client sent and somebody else has read.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        match self {
            ClientConnection::Direct(channel) => channel.receive(bytes),
            ClientConnection::Tunnelled(tunnel) => tunnel.incoming.receive(bytes),
        }
    }

    /// The proxy says that the client has left.
    pub(crate) fn receive_end(&mut self) {
        if let ClientConnection::Tunnelled(tunnel) = self {
            tunnel.ended = true;
        }
    }

    /// Reads what is there. `Ok(false)` when the client has left.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        match self {
            ClientConnection::Direct(channel) => channel.fill(),
            ClientConnection::Tunnelled(tunnel) => Ok(!tunnel.ended),
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        match self {
            ClientConnection::Direct(channel) => channel.next_frame(),
            ClientConnection::Tunnelled(tunnel) => tunnel.incoming.next_frame(),
        }
    }

    /// Something waits for room on the way to the client: its own bytes, or anybody's who shares it.
    pub(crate) fn is_blocked(&self) -> bool {
        match self {
            ClientConnection::Direct(channel) => channel.is_blocked(),
            ClientConnection::Tunnelled(tunnel) => tunnel.writer.borrow().is_blocked(),
        }
    }

    /// Sends a small frame, behind whatever still waits.
    pub(crate) fn send(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.send_encoded(&bytes)
    }

    /// Sends encoded bytes, behind whatever still waits.
    pub(crate) fn send_encoded(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            ClientConnection::Direct(channel) => channel.send_encoded(bytes),
            ClientConnection::Tunnelled(Tunnel { serial, writer, .. }) => {
                writer.borrow_mut().send_frame(&Frame::Tunnel { serial: *serial, data: bytes })
            }
        }
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientConnection::Direct(channel) => channel.flush(),
            ClientConnection::Tunnelled(_) => Ok(()),
        }
    }

    /// The connection, if it is ours to wait for.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            ClientConnection::Direct(channel) => Some(channel.as_fd()),
            ClientConnection::Tunnelled(_) => None,
        }
    }

    /// Closes our end of the connection.
    pub(crate) fn close_client(self, poller: &Poller) {
        match self {
            // The proxy has the same open file, so epoll would not notice by itself.
            ClientConnection::Direct(channel) => poller.remove(channel.as_fd()),
            ClientConnection::Tunnelled(Tunnel { serial, writer, .. }) => {
                // A proxy that has gone is noticed by the end of its connection.
                let _ = writer.borrow_mut().send_frame(&Frame::TunnelEnd { serial });
            }
        }
    }
}
