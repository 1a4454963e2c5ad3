//! Our end of a runner's control connection.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aifo_types::{ExecId, Kind, Signal};
use aifo_wire::{
    CancelCause, Delivery, FRAMES_VERSION, Frame, FrameReader, Interrupt, Setup, Start,
};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::backend::SidecarError;
use crate::exec::{Exec, ExecEvent};
use crate::link::Link;
use crate::outbox::Outbox;
use crate::translation::PathTranslation;
use crate::tunnel::{self, RelayTarget, TunnelMessage};

/// A runner that has answered. Cheap to clone; the connection closes with [`Runner::close`] or
/// with the last clone, and the sidecar ends with it.
#[derive(Clone, Debug)]
pub struct Runner {
    kind: Kind,
    control: Arc<ControlHandle>,
    lost: watch::Receiver<bool>,
    translation: Arc<PathTranslation>,
}

/// The runner's users hold this; the task that reads the answers does not.
#[derive(Debug)]
struct ControlHandle(Arc<ControlConnection>);

#[derive(Debug)]
pub(crate) struct ControlConnection {
    link: Link,
    outbox: Mutex<Outbox>,
    /// The outbox could not be emptied at once.
    backlog: Notify,
    /// There is room in the outbox for more of a client's bytes.
    room: Notify,
    replies: Mutex<PendingReplies>,
}

/// Who waits for what the runner says.
#[derive(Debug, Default)]
struct PendingReplies {
    last_serial: u32,
    signals: HashMap<u32, oneshot::Sender<Delivery>>,
    execs: HashMap<u32, mpsc::UnboundedSender<ExecEvent>>,
    /// Where no descriptors travel, those who carry what they would have.
    tunnels: HashMap<u32, mpsc::UnboundedSender<TunnelMessage>>,
    /// TunnelMessage if the runner busy although it was asked to go.
    busy: Option<oneshot::Sender<()>>,
}

/// What a runner answers when it is asked to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetireOutcome {
    /// It has gone.
    Retired,
    /// Something still runs below it.
    Busy,
}

impl PendingReplies {
    fn next_serial(&mut self) -> u32 {
        self.last_serial = self.last_serial.wrapping_add(1);
        self.last_serial
    }

    /// Tells of an exec, by way of whoever carries its bytes if there is no other.
    fn dispatch(&mut self, serial: u32, event: ExecEvent) {
        let not_started = matches!(event, ExecEvent::NotStarted(_));
        // Nobody may be interested any more.
        if let Some(exec) = self.execs.get(&serial) {
            let _ = exec.send(event);
        } else if let Some(tunnel) = self.tunnels.get(&serial) {
            let _ = tunnel.send(TunnelMessage::Event(event));
        }
        if not_started {
            // There is nothing to carry, and no end of it comes.
            self.tunnels.remove(&serial);
        }
    }
}

/// How long a runner may take to answer after its start.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a runner may take to end its tools and itself: the ladder's 3 s, and some.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

impl Runner {
    /// Waits for the runner at the other end of `control`, a unix stream socket, to say that it is
    /// ready, then tells it where the session's directories are.
    pub async fn connect(
        kind: Kind,
        control: OwnedFd,
        setup: &Setup,
    ) -> Result<Self, SidecarError> {
        let link = Link::socket(control);
        let failed = |source| SidecarError::Start { kind: kind.clone(), source };
        Self::connect_over(link.map_err(failed)?, kind, setup).await
    }

    /// As [`Runner::connect`], with a runner whose stdout is `reader` and whose stdin is `writer`. No
    /// descriptors reach it: what they would carry, frames do. Both must be pipes, and do not block
    /// from now on.
    pub async fn connect_stream(
        kind: Kind,
        reader: OwnedFd,
        writer: OwnedFd,
        setup: &Setup,
    ) -> Result<Self, SidecarError> {
        let link = Link::pipes(reader, writer);
        let failed = |source| SidecarError::Start { kind: kind.clone(), source };
        Self::connect_over(link.map_err(failed)?, kind, setup).await
    }

    async fn connect_over(link: Link, kind: Kind, setup: &Setup) -> Result<Self, SidecarError> {
        let mut frames = FrameReader::new();
        let hello = hello(&kind, &link, &mut frames);
        let version = match tokio::time::timeout(HELLO_TIMEOUT, hello).await {
            Ok(version) => version?,
            Err(_) => return Err(SidecarError::NoAnswer(kind)),
        };
        if version != FRAMES_VERSION {
            return Err(SidecarError::Version {
                kind,
                runner_version: version,
                own_version: FRAMES_VERSION,
            });
        }
        let control = Arc::new(ControlConnection {
            link,
            outbox: Mutex::default(),
            backlog: Notify::new(),
            room: Notify::new(),
            replies: Mutex::default(),
        });
        control.send(&Frame::Setup(setup.clone()), Vec::new());
        let (lost_sender, lost) = watch::channel(false);
        tokio::spawn({
            let (kind, control) = (kind.clone(), Arc::clone(&control));
            async move {
                control.serve(&kind, frames).await;
                // Whoever waits learns by this that no answer will come.
                *control.replies() = PendingReplies::default();
                // Nobody may be interested any more.
                let _ = lost_sender.send(true);
            }
        });
        Ok(Runner {
            kind,
            control: Arc::new(ControlHandle(control)),
            lost,
            translation: Arc::default(),
        })
    }

    /// The same runner, where directories are called otherwise than by clients.
    pub(crate) fn with_translation(self, translation: PathTranslation) -> Self {
        Runner { translation: Arc::new(translation), ..self }
    }

    /// The kind of the sidecar.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether descriptors reach the runner.
    pub fn takes_descriptors(&self) -> bool {
        self.control.0.link.takes_descriptors()
    }

    /// Asks for a tool to be started, on `fds`: as many as the `Start` names, in its order. What
    /// comes of it arrives as events. The serial is given here.
    ///
    /// Where no descriptors reach the runner, what is to be passed is relayed instead, as `Started`
    /// tells the client: its own connection is held and carried here, and without one the pipe that
    /// the tool is to print to.
    pub fn start(&self, mut start: Start, fds: Vec<OwnedFd>) -> Exec {
        let control = &self.control.0;
        let (events_sender, events) = mpsc::unbounded_channel();
        let serial = control.replies().next_serial();
        start.serial = serial;
        if let Some(cwd) = &mut start.invocation.cwd {
            self.translation.apply(cwd);
        }
        let fds = if control.link.takes_descriptors() {
            control.replies().execs.insert(serial, events_sender);
            fds
        } else {
            self.start_relayed(&mut start, fds, events_sender);
            Vec::new()
        };
        if self.is_lost() {
            // Nobody would ever answer.
            self.forget_exec(serial);
            control.forget_tunnel(serial);
        }
        control.send(&Frame::Start(Box::new(start)), fds);
        Exec::new(self.clone(), serial, events)
    }

    /// Has somebody carry what the descriptors would.
    fn start_relayed(
        &self,
        start: &mut Start,
        fds: Vec<OwnedFd>,
        events_sender: mpsc::UnboundedSender<ExecEvent>,
    ) {
        let (serial, control) = (start.serial, Arc::clone(&self.control.0));
        let (messages_sender, messages) = mpsc::unbounded_channel();
        let mut replies = self.control.0.replies();
        match tunnel::relay_streams(start, fds) {
            RelayTarget::Client(client) => {
                replies.execs.insert(serial, events_sender);
                replies.tunnels.insert(serial, messages_sender);
                tokio::spawn(tunnel::relay_client(control, serial, client, messages));
            }
            RelayTarget::Output(pipe) => {
                replies.tunnels.insert(serial, messages_sender);
                tokio::spawn(tunnel::relay_output(control, serial, pipe, messages, events_sender));
            }
            RelayTarget::None => {
                replies.execs.insert(serial, events_sender);
            }
        }
    }

    /// Delivers a signal to the process group of a running exec, and returns when that was done.
    pub async fn signal(&self, id: &ExecId, signal: Signal) -> Result<Delivery, SidecarError> {
        let (answer, answered) = oneshot::channel();
        let serial = {
            let mut replies = self.control.0.replies();
            let serial = replies.next_serial();
            replies.signals.insert(serial, answer);
            serial
        };
        self.control.0.send(&Frame::Kill { serial, signal, id: id.clone() }, Vec::new());
        answered.await.map_err(|_| SidecarError::Lost(self.kind.clone()))
    }

    pub(crate) fn cancel(&self, serial: u32, cause: CancelCause, interrupt: Interrupt) {
        self.control.0.send(&Frame::Cancel { serial, cause, interrupt }, Vec::new());
    }

    /// Asks the runner to go if nothing runs below it. It reads nothing else once it has decided to go,
    /// so meanwhile nobody may start anything.
    pub(crate) async fn retire(&self) -> RetireOutcome {
        let (events_sender, busy) = oneshot::channel();
        self.control.0.replies().busy = Some(events_sender);
        if self.is_lost() {
            // Nobody would ever answer.
            self.control.0.replies().busy = None;
        }
        self.control.0.send(&Frame::Retire, Vec::new());
        match busy.await {
            Ok(()) => RetireOutcome::Busy,
            Err(_) => {
                self.lost().await;
                RetireOutcome::Retired
            }
        }
    }

    /// Nobody waits for this exec any more.
    pub(crate) fn forget_exec(&self, serial: u32) {
        self.control.0.replies().execs.remove(&serial);
    }

    /// Whether the runner is gone.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Waits until the runner is gone, and with it everything that ran below it. The future does
    /// not keep the connection open.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            // An error means that the reading task is gone, which comes to the same.
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }

    /// Lets the runner end its tools by the ladder and go, and returns when it has. One that does
    /// not is given up after 6 s; then its guard, or its container, ends it.
    pub async fn close(&self) {
        self.link().shutdown(Shutdown::Write);
        if tokio::time::timeout(CLOSE_TIMEOUT, self.lost()).await.is_err() {
            tracing::warn!(kind = %self.kind, "a sidecar did not end in time");
            self.link().shutdown(Shutdown::Both);
        }
    }

    fn link(&self) -> &Link {
        &self.control.0.link
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        self.0.disconnect();
    }
}

impl ControlConnection {
    /// Sends a frame, now or as soon as there is room. A runner that is gone takes none.
    pub(crate) fn send(&self, frame: &Frame<'_>, fds: Vec<OwnedFd>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let mut outbox = self.outbox();
        outbox.push(bytes, fds);
        self.flush(&mut outbox);
        if !outbox.is_empty() {
            self.backlog.notify_one();
        }
    }

    fn flush(&self, outbox: &mut Outbox) {
        if outbox.flush(&self.link).is_err() {
            *outbox = Outbox::default();
            self.disconnect();
        }
        if outbox.unsent() <= MAX_UNSENT {
            self.room.notify_waiters();
        }
    }

    /// Whether more of a client's bytes may be sent: what waits here is bounded, whoever sends.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox().unsent() <= MAX_UNSENT
    }

    /// Waits until more of a client's bytes may be sent. Cancel-safe.
    pub(crate) async fn writable(&self) {
        loop {
            let mut freed = pin!(self.room.notified());
            // From now on none is missed.
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// Nothing more is said or heard; the runner ends by it.
    pub(crate) fn disconnect(&self) {
        self.link.shutdown(Shutdown::Both);
    }

    /// Nobody carries anything for this exec any more.
    pub(crate) fn forget_tunnel(&self, serial: u32) {
        self.replies().tunnels.remove(&serial);
    }

    /// Reads what the runner says, and sends it what had to wait, until it is gone.
    async fn serve(&self, kind: &Kind, mut frames: FrameReader) {
        loop {
            if !self.take_frames(kind, &mut frames) {
                self.disconnect();
                return;
            }
            tokio::select! {
                read = fill(&self.link, &mut frames) => {
                    if !read.unwrap_or(false) {
                        return;
                    }
                }
                () = self.send_backlog() => {}
            }
        }
    }

    /// Tells whoever waits for it. `false` if it makes no sense.
    fn take_frames(&self, kind: &Kind, frames: &mut FrameReader) -> bool {
        loop {
            let (serial, event) = match frames.next_frame() {
                Ok(None) => return true,
                Ok(Some(Frame::Killed { serial, found })) => {
                    if let Some(waiting) = self.replies().signals.remove(&serial) {
                        // The one who asked may have given up.
                        let _ = waiting.send(found);
                    }
                    continue;
                }
                Ok(Some(Frame::Tunnel { serial, data })) => {
                    if let Some(tunnel) = self.replies().tunnels.get(&serial) {
                        // Whoever carried it may have left.
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
        // An error shows when it is tried again.
        let _ = self.link.writable().await;
        self.flush(&mut self.outbox());
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replies(&self) -> MutexGuard<'_, PendingReplies> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for bytes from the runner. `Ok(false)` when it has closed its end. Cancel-safe.
async fn fill(link: &Link, frames: &mut FrameReader) -> io::Result<bool> {
    let room = if link.takes_descriptors() { READ } else { STREAM_READ };
    let count = link.receive(frames.buffer().spare(room)).await?;
    frames.buffer().commit(count);
    Ok(count > 0)
}

/// A runner says a few bytes per exec.
const READ: usize = 4 * 1024;
/// Where it takes no descriptors, it says what tools print, too.
const STREAM_READ: usize = 64 * 1024;
/// How many bytes may wait for a runner before no more is taken from a client.
const MAX_UNSENT: usize = 256 * 1024;

/// Waits for the runner's first frame.
async fn hello(kind: &Kind, link: &Link, frames: &mut FrameReader) -> Result<u8, SidecarError> {
    loop {
        let protocol = |source| SidecarError::Protocol { kind: kind.clone(), source };
        match frames.next_frame().map_err(|error| protocol(Some(error)))? {
            Some(Frame::Hello { version }) => return Ok(version),
            Some(_) => return Err(protocol(None)),
            None => {}
        }
        let open = fill(link, frames).await;
        match open.map_err(|source| SidecarError::Start { kind: kind.clone(), source })? {
            true => {}
            false => {
                let source = io::Error::other("its runner ended before it was ready");
                return Err(SidecarError::Start { kind: kind.clone(), source });
            }
        }
    }
}

/// Two connected ends; neither survives an exec.
pub(crate) fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
}
