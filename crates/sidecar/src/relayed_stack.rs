//! The connections of a network stack, whose runner relays them in frames
//! (`spec/runner.md#connections-of-a-stack`).

use std::fmt;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aifo_wire::{Buffer, Frame, MAX_NET_CONNECTIONS, NetBytes, NetFlow, NetFlowError, NetFrame};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::control::ControlConnection;
use crate::stack_table::{Received, StackConnection, StackEvent, StackTable};

/// A stack whose clients connect through frames. Ends with the runner connection.
pub struct RelayedStack {
    events: mpsc::Receiver<StackEvent>,
    control: Arc<ControlConnection>,
}

/// Clients and datagrams that the server of the stack has not taken. Further datagrams are dropped, as
/// clients repeat them.
const MAX_EVENTS: usize = MAX_NET_CONNECTIONS + 256;

/// Bytes per read of a connection socket.
const READ_SIZE: usize = 32 * 1024;

impl RelayedStack {
    /// Returns the next client or datagram; `None` when the runner is lost. Cancel-safe.
    pub async fn next(&mut self) -> Option<StackEvent> {
        self.events.recv().await
    }

    /// Sends a datagram to a client. It is dropped if the runner does not read.
    pub fn answer(&self, peer: SocketAddrV4, data: &[u8]) {
        if self.control.has_room() {
            self.control.send(&Frame::Net(NetFrame::Answer { peer, data }));
        }
    }
}

impl fmt::Debug for RelayedStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedStack").finish_non_exhaustive()
    }
}

impl ControlConnection {
    /// Accepts the frames of a stack from now on.
    pub(crate) fn relay_stack(self: &Arc<Self>) -> RelayedStack {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        *self.stack().lock() = Some(StackTable::new(sender));
        RelayedStack { events, control: Arc::clone(self) }
    }

    /// Handles the runner frame. Errors: the runner has broken the protocol.
    pub(crate) fn receive_of_stack(
        self: &Arc<Self>,
        frame: NetFrame<'_>,
    ) -> Result<(), NetFlowError> {
        let mut table = self.stack().lock();
        let table = table.as_mut().ok_or(NetFlowError)?;
        match frame {
            NetFrame::Open { connection, dialled, peer } => {
                let received = table.open(connection)?;
                let address = (dialled, peer);
                self.relay_to(table, connection, received, |socket, reset, table| {
                    let (dialled, peer) = address;
                    table.accept(StackConnection { socket, dialled, peer, reset })
                });
            }
            NetFrame::Data { connection, data } => {
                let entry = table.entry(connection)?;
                if entry.flow.receive_data(data.len())? == NetBytes::Deliver {
                    entry.pass(Received::Bytes(data.to_vec()));
                }
            }
            NetFrame::End { connection } => {
                let entry = table.entry(connection)?;
                entry.flow.receive_end()?;
                entry.pass(Received::End);
                table.forget_closed(connection);
            }
            NetFrame::Reset { connection } => {
                let Some(entry) = table.past_entry(connection)? else { return Ok(()) };
                entry.flow.receive_reset()?;
                entry.pass(Received::Reset);
                if entry.flow.reset() {
                    self.send_of_stack(NetFrame::Reset { connection });
                }
                table.forget_closed(connection);
            }
            NetFrame::Credit { connection, bytes } => {
                let Some(entry) = table.past_entry(connection)? else { return Ok(()) };
                entry.flow.receive_credit(bytes)?;
                entry.pass(Received::Credit);
            }
            NetFrame::Query { peer, data } => {
                let query = StackEvent::Query { peer, data: data.to_vec() };
                // Dropped if there are too many.
                let _ = table.events.try_send(query);
            }
            NetFrame::Answer { .. } => return Err(NetFlowError),
        }
        Ok(())
    }

    /// Relays the bytes of a connection to a socket, which `take` passes on. Resets the connection if it
    /// returns `false`.
    pub(crate) fn relay_to(
        self: &Arc<Self>,
        table: &mut StackTable,
        connection: u32,
        received: mpsc::UnboundedReceiver<Received>,
        take: impl FnOnce(OwnedFd, Arc<AtomicBool>, &StackTable) -> bool,
    ) {
        let reset = Arc::<AtomicBool>::default();
        let accepted = connected_pair()
            .ok()
            .and_then(|(own, socket)| take(socket, Arc::clone(&reset), table).then_some(own));
        let Some(socket) = accepted else {
            // As when the descriptor table is full.
            if table.entry(connection).is_ok_and(|entry| entry.flow.reset()) {
                self.send_of_stack(NetFrame::Reset { connection });
            }
            return;
        };
        let control = Arc::clone(self);
        tokio::spawn(Relay { control, connection, socket, reset }.run(received));
    }

    fn send_of_stack(&self, frame: NetFrame<'_>) {
        self.send(&Frame::Net(frame));
    }

    /// Updates the state of a connection and sends the frame that results, before any other of this
    /// connection.
    fn update<'a>(&self, connection: u32, act: impl FnOnce(&mut NetFlow) -> Option<NetFrame<'a>>) {
        let mut table = self.stack().lock();
        let Some(table) = table.as_mut() else { return };
        let Ok(entry) = table.entry(connection) else { return };
        if let Some(frame) = act(&mut entry.flow) {
            self.send_of_stack(frame);
        }
        table.forget_closed(connection);
    }

    /// Returns the number of bytes that may be sent for a connection.
    fn sendable(&self, connection: u32) -> usize {
        let mut table = self.stack().lock();
        let entry = table.as_mut().and_then(|table| table.entry(connection).ok());
        entry.map_or(0, |entry| entry.flow.sendable())
    }
}

fn connected_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (own, socket) = std::os::unix::net::UnixStream::pair()?;
    own.set_nonblocking(true)?;
    socket.set_nonblocking(true)?;
    Ok((UnixStream::from_std(own)?, socket.into()))
}

/// Relays bytes between the frames and the server of the stack.
struct Relay {
    control: Arc<ControlConnection>,
    connection: u32,
    socket: UnixStream,
    reset: Arc<AtomicBool>,
}

impl Relay {
    async fn run(mut self, received: mpsc::UnboundedReceiver<Received>) {
        if self.copy(received).await.is_err() {
            let connection = self.connection;
            self.control
                .update(connection, |flow| flow.reset().then_some(NetFrame::Reset { connection }));
        }
    }

    /// Copies until both sides have ended. Errors: the server of the stack has failed. The client's
    /// failure, or the loss of the runner, closes the socket.
    async fn copy(&mut self, mut received: mpsc::UnboundedReceiver<Received>) -> io::Result<()> {
        let connection = self.connection;
        let mut unsent = Buffer::new();
        let mut bytes = vec![0; READ_SIZE];
        let (mut client_ended, mut server_ended, mut is_shut_down) = (false, false, false);
        while !(server_ended && is_shut_down) {
            let room = self.control.sendable(connection).min(bytes.len());
            let may_read = !server_ended && room > 0;
            let has_room = self.control.has_room();
            tokio::select! {
                biased;
                message = received.recv(), if !client_ended || !server_ended => match message {
                    Some(Received::Bytes(bytes)) => unsent.extend(&bytes),
                    Some(Received::End) => client_ended = true,
                    Some(Received::Credit) => {}
                    None if client_ended && !unsent.is_empty() => server_ended = true,
                    Some(Received::Reset) | None => return Ok(()),
                },
                ready = self.socket.writable(), if !unsent.is_empty() => {
                    ready?;
                    self.write(&mut unsent)?;
                }
                () = self.control.writable(), if may_read && !has_room => {}
                ready = self.socket.ready(Interest::READABLE), if may_read && has_room => {
                    ready?;
                    let length = match self.socket.try_read(&mut bytes[..room]) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        length => length?,
                    };
                    if length == 0 {
                        if self.reset.load(Ordering::Relaxed) {
                            return Err(io::ErrorKind::ConnectionReset.into());
                        }
                        server_ended = true;
                        self.control.update(connection, |flow| {
                            flow.end().then_some(NetFrame::End { connection })
                        });
                        continue;
                    }
                    let data = &bytes[..length];
                    self.control.update(connection, |flow| {
                        flow.record_sent(length);
                        Some(NetFrame::Data { connection, data })
                    });
                }
            }
            if client_ended && unsent.is_empty() && !is_shut_down {
                is_shut_down = true;
                // The server may be gone.
                let _ = self.socket.shutdown().await;
            }
        }
        Ok(())
    }

    fn write(&self, unsent: &mut Buffer) -> io::Result<()> {
        let connection = self.connection;
        let written = match self.socket.try_write(unsent.as_slice()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            written => written?,
        };
        unsent.consume(written);
        self.control.update(connection, |flow| {
            flow.release(written).map(|bytes| NetFrame::Credit { connection, bytes })
        });
        Ok(())
    }
}
