//! The control connection to a runner: sends frames and dispatches the runner's.

mod start;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_types::{ExecId, Kind};
use aifo_wire::{
    CancelCause, Delivery, Frame, FrameReader, Interrupt, Listener, ListenerReport, NetFlowError,
    SocketResult, Start,
};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::event::ExecEvent;
use crate::link::Link;
use crate::outbox::{Message, Outbox, RelayStreams};
use crate::stack_table::SharedStackTable;

pub(crate) use self::start::read_hello;

#[derive(Debug)]
pub(crate) struct ControlConnection {
    link: Link,
    outbox: Mutex<Outbox>,
    /// Notified when the outbox could not be emptied at once.
    backlog: Notify,
    /// Notified when the outbox has room for more of a client's bytes.
    room: Notify,
    replies: Mutex<PendingReplies>,
    stack: SharedStackTable,
}

/// The receivers of the runner frames, by serial.
#[derive(Debug, Default)]
pub(crate) struct PendingReplies {
    last_serial: u32,
    pub(crate) signals: HashMap<u32, oneshot::Sender<Delivery>>,
    pub(crate) callers: HashMap<u32, oneshot::Sender<Option<ExecId>>>,
    pub(crate) execs: HashMap<u32, mpsc::UnboundedSender<ExecEvent>>,
    /// The tasks that relay bytes to and from a runner without descriptors.
    pub(crate) tunnels: HashMap<u32, mpsc::UnboundedSender<TunnelMessage>>,
    /// Signalled if the runner refuses to retire.
    pub(crate) busy: Option<oneshot::Sender<()>>,
    /// The requested sockets of the runner network stack.
    sockets: HashMap<u32, PendingSocket>,
    /// The receiver of reports about that stack's listeners.
    pub(crate) listeners: Option<ListenerReceiver>,
    /// The connection has ended; no reply follows.
    has_ended: bool,
}

/// Receives the reply to a request for a socket: the result, its id, and the passed descriptors. Errors: the
/// reply breaks the protocol.
pub(crate) struct PendingSocket(pub(crate) Box<ReplyFn>);

pub(crate) type ReplyFn = dyn FnOnce(
        &Arc<ControlConnection>,
        (SocketResult, u32),
        &mut VecDeque<OwnedFd>,
    ) -> Result<(), NetFlowError>
    + Send;

impl std::fmt::Debug for PendingSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingSocket").finish_non_exhaustive()
    }
}

/// Receives what listens in a network stack.
pub(crate) struct ListenerReceiver(pub(crate) Box<dyn Fn(ListenerReport, Vec<Listener>) + Send>);

impl std::fmt::Debug for ListenerReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerReceiver").finish_non_exhaustive()
    }
}

/// Whether a runner passes sockets of its network stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassesSockets {
    Yes,
    No,
}

/// A runner message to the task that relays an exec's bytes.
#[derive(Debug)]
pub(crate) enum TunnelMessage {
    /// Bytes for the client.
    Bytes(Vec<u8>),
    /// An event that must not overtake the bytes before it.
    Event(ExecEvent),
}

impl PendingReplies {
    pub(crate) fn next_serial(&mut self) -> u32 {
        self.last_serial = self.last_serial.wrapping_add(1);
        self.last_serial
    }

    /// Sends an event to the exec's receiver, or else to the task that relays its bytes.
    fn dispatch(&mut self, serial: u32, event: ExecEvent) {
        let not_started = matches!(event, ExecEvent::NotStarted(_));
        // A receiver may have been dropped.
        if let Some(exec) = self.execs.get(&serial) {
            let _ = exec.send(event);
        } else if let Some(tunnel) = self.tunnels.get(&serial) {
            let _ = tunnel.send(TunnelMessage::Event(event));
        }
        if not_started {
            // There are no bytes to relay, and no `TunnelEnd` follows.
            self.tunnels.remove(&serial);
        }
    }
}

impl ControlConnection {
    pub(crate) fn new(link: Link) -> Self {
        ControlConnection {
            link,
            outbox: Mutex::default(),
            backlog: Notify::new(),
            room: Notify::new(),
            replies: Mutex::default(),
            stack: SharedStackTable::default(),
        }
    }

    pub(crate) fn stack(&self) -> &SharedStackTable {
        &self.stack
    }

    pub(crate) fn takes_descriptors(&self) -> bool {
        self.link.takes_descriptors()
    }

    /// Returns whether the runner passes sockets of its network stack, rather than to relay them.
    pub(crate) fn passes_sockets(&self) -> bool {
        self.takes_descriptors() && self.stack.lock().is_none()
    }

    /// Sends a frame, at once or when there is room. Frames to a lost runner are dropped.
    pub(crate) fn send(&self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.push(Message::of(bytes));
    }

    /// As [`ControlConnection::send`], with the descriptors of the `Start`.
    pub(crate) fn send_start(&self, start: Start, fds: Vec<OwnedFd>, relay: RelayStreams) {
        self.push(Message::of_start(start, fds, relay));
    }

    fn push(&self, message: Message) {
        let mut outbox = self.outbox();
        outbox.push(message);
        self.flush(&mut outbox);
        if !outbox.is_empty() {
            self.backlog.notify_one();
        }
    }

    pub(crate) fn cancel(&self, serial: u32, cause: CancelCause, interrupt: Interrupt) {
        self.send(&Frame::Cancel { serial, cause, interrupt });
    }

    fn flush(&self, outbox: &mut Outbox) {
        if outbox.flush(&self.link).is_err() {
            *outbox = Outbox::default();
            self.shutdown(Shutdown::Both);
        }
        if outbox.unsent() <= MAX_UNSENT {
            self.room.notify_waiters();
        }
    }

    /// Returns whether more of a client's bytes may be sent. Bounds the outbox for all senders
    /// together.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox().unsent() <= MAX_UNSENT
    }

    /// Waits until more of a client's bytes may be sent. Cancel-safe.
    pub(crate) async fn writable(&self) {
        loop {
            let mut freed = pin!(self.room.notified());
            // Registers before the check, so that no notification is lost.
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// Closes one direction, or both. The runner ends its tools when it can receive no more frames.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        self.link.shutdown(how);
    }

    pub(crate) fn forget_exec(&self, serial: u32) {
        self.replies().execs.remove(&serial);
    }

    pub(crate) fn forget_tunnel(&self, serial: u32) {
        self.replies().tunnels.remove(&serial);
    }

    /// Registers the receiver of a socket, and returns the request's serial. `None` if the connection has
    /// ended.
    pub(crate) fn expect_socket(&self, pending: PendingSocket) -> Option<u32> {
        let mut replies = self.replies();
        if replies.has_ended {
            return None;
        }
        let serial = replies.next_serial();
        replies.sockets.insert(serial, pending);
        Some(serial)
    }

    /// Passes a reply to the requester of a socket. Errors: the runner has broken the protocol.
    fn receive_opened(
        self: &Arc<Self>,
        serial: u32,
        reply: (SocketResult, u32),
        fds: &mut VecDeque<OwnedFd>,
    ) -> Result<(), NetFlowError> {
        let pending = self.replies().sockets.remove(&serial);
        pending.map_or(Err(NetFlowError), |PendingSocket(receive)| receive(self, reply, fds))
    }

    /// Dispatches the runner frames and sends the backlog until the connection ends. Then drops all
    /// receivers, so that their tasks see that no reply follows.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        kind: &Kind,
        mut frames: FrameReader,
        passes: PassesSockets,
    ) {
        let mut fds = VecDeque::new();
        loop {
            if !self.dispatch_frames(kind, &mut frames, &mut fds) {
                self.shutdown(Shutdown::Both);
                break;
            }
            tokio::select! {
                read = self.fill(&mut frames, passes, &mut fds) => {
                    if !read.unwrap_or(false) {
                        break;
                    }
                }
                () = self.send_backlog() => {}
            }
        }
        *self.replies() = PendingReplies { has_ended: true, ..PendingReplies::default() };
        self.stack.clear();
    }

    /// Reads bytes from the runner, and at most one descriptor. `Ok(false)` when it has closed its end.
    /// Cancel-safe.
    async fn fill(
        &self,
        frames: &mut FrameReader,
        passes: PassesSockets,
        fds: &mut VecDeque<OwnedFd>,
    ) -> io::Result<bool> {
        if passes == PassesSockets::No {
            return fill(&self.link, frames).await;
        }
        let received = self.link.receive_with_fds(frames.buffer().spare(READ), 1).await?;
        frames.buffer().commit(received.bytes);
        fds.extend(received.fds);
        // Each comes with the first byte of its frame, and complete frames take theirs.
        if fds.len() > MAX_UNCLAIMED {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(received.bytes > 0)
    }

    /// Dispatches all complete frames. `false` after a protocol error.
    fn dispatch_frames(
        self: &Arc<Self>,
        kind: &Kind,
        frames: &mut FrameReader,
        fds: &mut VecDeque<OwnedFd>,
    ) -> bool {
        loop {
            let (serial, event) = match frames.next_frame() {
                Ok(None) => return true,
                Ok(Some(Frame::Killed { serial, found })) => {
                    if let Some(waiting) = self.replies().signals.remove(&serial) {
                        // The sender of the signal may have stopped waiting.
                        let _ = waiting.send(found);
                    }
                    continue;
                }
                Ok(Some(Frame::Caller { serial, id })) => {
                    if let Some(waiting) = self.replies().callers.remove(&serial) {
                        // The gateway waits for a moment only.
                        let _ = waiting.send(id);
                    }
                    continue;
                }
                Ok(Some(Frame::Tunnel { serial, data })) => {
                    if let Some(tunnel) = self.replies().tunnels.get(&serial) {
                        // The relaying task may have ended.
                        let _ = tunnel.send(TunnelMessage::Bytes(data.to_vec()));
                    }
                    continue;
                }
                Ok(Some(Frame::TunnelEnd { serial })) => {
                    self.forget_tunnel(serial);
                    continue;
                }
                Ok(Some(Frame::Busy)) => {
                    if let Some(waiting) = self.replies().busy.take() {
                        let _ = waiting.send(());
                    }
                    continue;
                }
                Ok(Some(Frame::Net(frame))) => {
                    if self.receive_of_stack(frame).is_err() {
                        tracing::warn!(%kind, "a runner broke the protocol of a connection");
                        return false;
                    }
                    continue;
                }
                Ok(Some(Frame::Opened { serial, result, id })) => {
                    if self.receive_opened(serial, (result, id), fds).is_err() {
                        tracing::warn!(%kind, "a runner broke the protocol of a socket");
                        return false;
                    }
                    continue;
                }
                Ok(Some(Frame::Listeners { report, listeners })) => {
                    if let Some(ListenerReceiver(receive)) = &self.replies().listeners {
                        receive(report, listeners);
                    }
                    continue;
                }
                Ok(Some(Frame::Started { serial, .. })) => (serial, ExecEvent::Started),
                Ok(Some(Frame::StartError { serial, error })) => {
                    (serial, ExecEvent::NotStarted(error))
                }
                Ok(Some(Frame::Left { serial })) => (serial, ExecEvent::ClientLeft),
                Ok(Some(Frame::Exit { serial, exit })) => (serial, ExecEvent::Ended(exit)),
                Ok(Some(_)) | Err(_) => {
                    tracing::warn!(%kind, "a runner broke the protocol");
                    return false;
                }
            };
            self.replies().dispatch(serial, event);
        }
    }

    async fn send_backlog(&self) {
        if self.outbox().is_empty() {
            self.backlog.notified().await;
        }
        // The next write reports an error.
        let _ = self.link.writable().await;
        self.flush(&mut self.outbox());
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn replies(&self) -> MutexGuard<'_, PendingReplies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads bytes from the runner. `Ok(false)` when it has closed its end. Cancel-safe.
async fn fill(link: &Link, frames: &mut FrameReader) -> io::Result<bool> {
    let room = if link.takes_descriptors() { READ } else { STREAM_READ };
    let count = link.receive(frames.buffer().spare(room)).await?;
    frames.buffer().commit(count);
    Ok(count > 0)
}

/// Passed descriptors whose frames are not complete.
const MAX_UNCLAIMED: usize = 2;

/// Bytes per read: a runner sends a few bytes per exec.
const READ: usize = 4 * 1024;
/// Bytes per read from a runner without descriptors, which also sends the tools' output.
const STREAM_READ: usize = 64 * 1024;
/// Unsent bytes above which no more is read from clients.
const MAX_UNSENT: usize = 256 * 1024;
