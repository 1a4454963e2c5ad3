//! One connection of a relayed stack.

use std::io;
use std::io::{Read, Write};
use std::net::TcpStream;

use aifo_wire::{Buffer, Frame, NetBytes, NetFlow, NetFlowError, NetFrame};
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Linger;

use super::READ_SIZE;
use crate::control::ControlConnection;

/// A client connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` once it was closed; then only the peer's last frame is missing.
    pub(super) socket: Option<TcpStream>,
    pub(super) flow: NetFlow,
    /// Bytes for the client. The peer's credit bounds them.
    pub(super) unsent: Buffer,
    /// The client has sent its last byte.
    pub(super) has_read_all: bool,
    /// The client receives no more bytes.
    pub(super) is_shut_down: bool,
    /// Registered epoll events.
    pub(super) registered: EpollFlags,
}

impl Connection {
    pub(super) fn new(socket: TcpStream) -> Self {
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
    pub(super) fn is_done(&self) -> bool {
        self.flow.is_closed() && (self.socket.is_none() || self.is_shut_down)
    }

    /// Reads bytes of the client and sends them.
    pub(super) fn read(
        &mut self,
        connection: u32,
        buffer: &mut [u8],
        control: &mut ControlConnection,
    ) {
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
    pub(super) fn flush(&mut self, connection: u32, control: &mut ControlConnection) {
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

    /// Closes the client connection so that it sees a failure, not an end.
    pub(super) fn reset(&mut self, connection: u32, control: &mut ControlConnection) {
        if let Some(socket) = self.socket.take() {
            let _ = setsockopt(&socket, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 });
        }
        self.unsent = Buffer::new();
        self.registered = EpollFlags::empty();
        if self.flow.reset() {
            control.send(&Frame::Net(NetFrame::Reset { connection }));
        }
    }

    pub(super) fn receive_data(
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

    pub(super) fn receive_end(
        &mut self,
        connection: u32,
        control: &mut ControlConnection,
    ) -> Result<(), NetFlowError> {
        self.flow.receive_end()?;
        self.flush(connection, control);
        Ok(())
    }

    pub(super) fn receive_reset(
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
