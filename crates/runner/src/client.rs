//! The client of an exec, wherever its connection ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_wire::{Frame, FrameError, FrameReader};

use crate::channel::Channel;
use crate::outgoing::Uplink;
use crate::poller::Poller;

/// Somebody who wants a tool's bytes and its ending.
#[derive(Debug)]
pub(crate) enum Client {
    /// On a connection of its own, which the proxy handed on.
    Connected(Channel),
    /// Whose connection stays with the proxy: what is said on it travels in frames of the control
    /// connection.
    Tunnelled(Tunnel),
}

/// A connection that exists only in frames of another.
#[derive(Debug)]
pub(crate) struct Tunnel {
    serial: u32,
    uplink: Uplink,
    incoming: FrameReader,
    /// The proxy has said that nothing more comes.
    ended: bool,
}

impl Tunnel {
    /// To the client of this exec.
    pub(crate) fn new(serial: u32, uplink: Uplink) -> Self {
        Tunnel { serial, uplink, incoming: FrameReader::for_client(), ended: false }
    }
}

impl Client {
    /// Takes bytes that the client sent and somebody else has read.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        match self {
            Client::Connected(channel) => channel.receive(bytes),
            Client::Tunnelled(tunnel) => tunnel.incoming.receive(bytes),
        }
    }

    /// The proxy says that the client has left.
    pub(crate) fn receive_end(&mut self) {
        if let Client::Tunnelled(tunnel) = self {
            tunnel.ended = true;
        }
    }

    /// Reads what is there. `Ok(false)` when the client has left.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        match self {
            Client::Connected(channel) => channel.fill(),
            Client::Tunnelled(tunnel) => Ok(!tunnel.ended),
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        match self {
            Client::Connected(channel) => channel.next_frame(),
            Client::Tunnelled(tunnel) => tunnel.incoming.next_frame(),
        }
    }

    /// Something waits for room on the way to the client: its own bytes, or anybody's who shares it.
    pub(crate) fn is_blocked(&self) -> bool {
        match self {
            Client::Connected(channel) => channel.is_blocked(),
            Client::Tunnelled(tunnel) => tunnel.uplink.borrow().is_blocked(),
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
            Client::Connected(channel) => channel.send_encoded(bytes),
            Client::Tunnelled(Tunnel { serial, uplink, .. }) => {
                uplink.borrow_mut().send_frame(&Frame::Tunnel { serial: *serial, data: bytes })
            }
        }
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Client::Connected(channel) => channel.flush(),
            Client::Tunnelled(_) => Ok(()),
        }
    }

    /// The connection, if it is ours to wait for.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Client::Connected(channel) => Some(channel.as_fd()),
            Client::Tunnelled(_) => None,
        }
    }

    /// Closes our end of the connection.
    pub(crate) fn hang_up(self, poller: &Poller) {
        match self {
            // The proxy has the same open file, so epoll would not notice by itself.
            Client::Connected(channel) => poller.forget(channel.as_fd()),
            Client::Tunnelled(Tunnel { serial, uplink, .. }) => {
                // A proxy that has gone is noticed by the end of its connection.
                let _ = uplink.borrow_mut().send_frame(&Frame::TunnelEnd { serial });
            }
        }
    }
}
