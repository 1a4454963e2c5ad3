//! Sockets that the proxy requests: listeners of mirrors, and connections into the stack.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use aifo_wire::{Frame, Loopback, SocketResult};
use nix::sys::epoll::EpollFlags;
use nix::sys::stat::fstat;

use super::StackRelay;
use crate::control::ControlConnection;
use crate::listeners::{bind_loopback, connect_loopback};
use crate::poller::{EventSource, Poller, StackFd};

impl StackRelay {
    /// Binds a port of 127.0.0.1, and relays its connections. Returns the inode of the listener.
    pub(crate) fn bind_mirror(&mut self, port: u16, poller: &Poller) -> Result<u32, SocketResult> {
        let listener = TcpListener::from(bind_loopback(port)?);
        let failed = |_: io::Error| SocketResult::Failed;
        listener.set_nonblocking(true).map_err(failed)?;
        let stat = fstat(&listener).map_err(|_| SocketResult::Failed)?;
        if self.is_accepting {
            let source = EventSource::Stack(StackFd::Mirror(port));
            poller.add(listener.as_fd(), source).map_err(failed)?;
        }
        self.mirrors.insert(port, listener);
        // The kernel numbers sockets with 32 bits.
        Ok(u32::try_from(stat.st_ino).unwrap_or(0))
    }

    /// Closes the listener of a mirror. Its connections go on.
    pub(crate) fn unbind_mirror(&mut self, port: u16) {
        self.mirrors.remove(&port);
    }

    /// Connects to a port; the reply to the request follows when that has ended. Errors: the reply.
    pub(crate) fn connect(
        &mut self,
        serial: u32,
        (address, port): (Loopback, u16),
        poller: &Poller,
    ) -> Result<(), SocketResult> {
        if !self.has_room() {
            return Err(SocketResult::Failed);
        }
        let socket = TcpStream::from(connect_loopback(address, port)?);
        let source = EventSource::Stack(StackFd::Connecting(serial));
        let added =
            poller.modify(socket.as_fd(), source, EpollFlags::empty(), EpollFlags::EPOLLOUT);
        added.map_err(|_| SocketResult::Failed)?;
        self.connecting.insert(serial, socket);
        Ok(())
    }

    /// Replies to a request whose connection is established, or has failed.
    pub(super) fn finish_connect(
        &mut self,
        serial: u32,
        poller: &Poller,
        control: &mut ControlConnection,
    ) -> io::Result<()> {
        let Some(socket) = self.connecting.remove(&serial) else { return Ok(()) };
        poller.remove(socket.as_fd());
        let (result, id) = match established(&socket) {
            Ok(()) => {
                let _ = socket.set_nodelay(true);
                (SocketResult::Passed, self.insert(socket))
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                (SocketResult::Refused, 0)
            }
            Err(_) => (SocketResult::Failed, 0),
        };
        control.send(&Frame::Opened { serial, result, id });
        self.update(id, poller, control)
    }
}

fn established(socket: &TcpStream) -> io::Result<()> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    // The kernel may choose the destination as the source; then nothing listens there.
    match socket.local_addr()? == socket.peer_addr()? {
        true => Err(io::ErrorKind::ConnectionRefused.into()),
        false => Ok(()),
    }
}
