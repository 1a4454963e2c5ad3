//! Our end of a runner's control connection.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
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
use crate::outbox::Outbox;
use crate::socket::Socket;

/// A runner that has answered. Cheap to clone; the connection closes with [`Runner::close`] or
/// with the last clone, and the sidecar ends with it.
#[derive(Clone, Debug)]
pub struct Runner {
    kind: Kind,
    control: Arc<Handle>,
    lost: watch::Receiver<bool>,
}

/// The runner's users hold this; the task that reads the answers does not.
#[derive(Debug)]
struct Handle(Arc<Control>);

#[derive(Debug)]
struct Control {
    socket: Socket,
    outbox: Mutex<Outbox>,
    /// The outbox could not be emptied at once.
    backlog: Notify,
    waiting: Mutex<Waiting>,
}

/// Who waits for what the runner says.
#[derive(Debug, Default)]
struct Waiting {
    last_serial: u32,
    signals: HashMap<u32, oneshot::Sender<Delivery>>,
    execs: HashMap<u32, mpsc::UnboundedSender<ExecEvent>>,
}

impl Waiting {
    fn next_serial(&mut self) -> u32 {
        self.last_serial = self.last_serial.wrapping_add(1);
        self.last_serial
    }
}

/// How long a runner may take to answer after its start.
pub(crate) const HELLO_TIME: Duration = Duration::from_secs(10);

/// How long a runner may take to end its tools and itself: the ladder's 3 s, and some.
const CLOSING_TIME: Duration = Duration::from_secs(6);

impl Runner {
    /// Waits for the runner at the other end of `control` to say that it is ready, then tells it
    /// where the session's directories are.
    pub async fn connect(
        kind: Kind,
        control: OwnedFd,
        setup: &Setup,
    ) -> Result<Self, SidecarError> {
        let start_failed = |source| SidecarError::Start { kind: kind.clone(), source };
        let socket = Socket::new(control).map_err(start_failed)?;
        let mut frames = FrameReader::new();
        let hello = hello(&kind, &socket, &mut frames);
        let theirs = match tokio::time::timeout(HELLO_TIME, hello).await {
            Ok(version) => version?,
            Err(_) => return Err(SidecarError::Silent(kind)),
        };
        if theirs != FRAMES_VERSION {
            return Err(SidecarError::Version { kind, theirs, ours: FRAMES_VERSION });
        }
        let control = Arc::new(Control {
            socket,
            outbox: Mutex::default(),
            backlog: Notify::new(),
            waiting: Mutex::default(),
        });
        control.send(&Frame::Setup(setup.clone()), Vec::new());
        let (tell_lost, lost) = watch::channel(false);
        tokio::spawn({
            let (kind, control) = (kind.clone(), Arc::clone(&control));
            async move {
                control.serve(&kind, frames).await;
                // Whoever waits learns by this that no answer will come.
                *control.waiting() = Waiting::default();
                // Nobody may be interested any more.
                let _ = tell_lost.send(true);
            }
        });
        Ok(Runner { kind, control: Arc::new(Handle(control)), lost })
    }

    /// The kind of the sidecar.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Asks for a tool to be started, on `fds`: as many as the `Start` names, in its order. What
    /// comes of it arrives as events. The serial is given here.
    pub fn start(&self, mut start: Start, fds: Vec<OwnedFd>) -> Exec {
        let (tell, events) = mpsc::unbounded_channel();
        start.serial = {
            let mut waiting = self.control.0.waiting();
            let serial = waiting.next_serial();
            waiting.execs.insert(serial, tell);
            serial
        };
        let serial = start.serial;
        if self.is_lost() {
            // Nobody would ever answer.
            self.forget(serial);
        }
        self.control.0.send(&Frame::Start(Box::new(start)), fds);
        Exec::new(self.clone(), serial, events)
    }

    /// Delivers a signal to the process group of a running exec, and returns when that was done.
    pub async fn signal(&self, id: &ExecId, signal: Signal) -> Result<Delivery, SidecarError> {
        let (answer, answered) = oneshot::channel();
        let serial = {
            let mut waiting = self.control.0.waiting();
            let serial = waiting.next_serial();
            waiting.signals.insert(serial, answer);
            serial
        };
        self.control.0.send(&Frame::Kill { serial, signal, id: id.clone() }, Vec::new());
        answered.await.map_err(|_| SidecarError::Lost(self.kind.clone()))
    }

    pub(crate) fn cancel(&self, serial: u32, cause: CancelCause, interrupt: Interrupt) {
        self.control.0.send(&Frame::Cancel { serial, cause, interrupt }, Vec::new());
    }

    /// Nobody waits for this exec any more.
    pub(crate) fn forget(&self, serial: u32) {
        self.control.0.waiting().execs.remove(&serial);
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
        self.socket().shutdown(Shutdown::Write);
        if tokio::time::timeout(CLOSING_TIME, self.lost()).await.is_err() {
            tracing::warn!(kind = %self.kind, "a sidecar did not end in time");
            self.socket().shutdown(Shutdown::Both);
        }
    }

    fn socket(&self) -> &Socket {
        &self.control.0.socket
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.socket.shutdown(Shutdown::Both);
    }
}

impl Control {
    /// Sends a frame, now or as soon as there is room. A runner that is gone takes none.
    fn send(&self, frame: &Frame<'_>, fds: Vec<OwnedFd>) {
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
        if outbox.flush(&self.socket).is_err() {
            *outbox = Outbox::default();
            self.socket.shutdown(Shutdown::Both);
        }
    }

    /// Reads what the runner says, and sends it what had to wait, until it is gone.
    async fn serve(&self, kind: &Kind, mut frames: FrameReader) {
        loop {
            if !self.take_frames(kind, &mut frames) {
                self.socket.shutdown(Shutdown::Both);
                return;
            }
            tokio::select! {
                read = fill(&self.socket, &mut frames) => {
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
                    if let Some(waiting) = self.waiting().signals.remove(&serial) {
                        // The one who asked may have given up.
                        let _ = waiting.send(found);
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
            if let Some(exec) = self.waiting().execs.get(&serial) {
                let _ = exec.send(event);
            }
        }
    }

    async fn send_backlog(&self) {
        if self.outbox().is_empty() {
            self.backlog.notified().await;
        }
        // An error shows when it is tried again.
        let _ = self.socket.writable().await;
        self.flush(&mut self.outbox());
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for bytes from the runner. `Ok(false)` when it has closed its end. Cancel-safe.
async fn fill(socket: &Socket, frames: &mut FrameReader) -> io::Result<bool> {
    let count = socket.receive(frames.buffer().spare(READ)).await?;
    frames.buffer().commit(count);
    Ok(count > 0)
}

/// A runner says a few bytes per exec.
const READ: usize = 4 * 1024;

/// Waits for the runner's first frame.
async fn hello(kind: &Kind, socket: &Socket, frames: &mut FrameReader) -> Result<u8, SidecarError> {
    loop {
        let protocol = |source| SidecarError::Protocol { kind: kind.clone(), source };
        match frames.next_frame().map_err(|error| protocol(Some(error)))? {
            Some(Frame::Hello { version }) => return Ok(version),
            Some(_) => return Err(protocol(None)),
            None => {}
        }
        let open = fill(socket, frames).await;
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
