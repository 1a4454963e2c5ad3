//! Our end of a runner's control connection.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aifo_process::send_with_fds;
use aifo_types::{ExecId, Kind, Signal};
use aifo_wire::{Delivery, FRAMES_VERSION, Frame, FrameReader, Setup, Start};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use tokio::sync::{oneshot, watch};

use crate::backend::SidecarError;
use crate::channel::ExecChannel;
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
    answers: Mutex<Answers>,
    /// A channel ended before its exec did, so the runner is dead; its guard, which holds the
    /// control connection open until all is cleaned up, may not be done yet.
    dead: AtomicBool,
}

/// Who waits for which answer of the runner.
#[derive(Debug, Default)]
struct Answers {
    last_serial: u32,
    waiting: HashMap<u32, oneshot::Sender<Delivery>>,
}

impl Answers {
    fn expect(&mut self, answer: oneshot::Sender<Delivery>) -> u32 {
        self.last_serial = self.last_serial.wrapping_add(1);
        self.waiting.insert(self.last_serial, answer);
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
        let mut bytes = Vec::new();
        Frame::Setup(setup.clone()).encode(&mut bytes);
        socket.send_all(&bytes).await.map_err(start_failed)?;

        let control =
            Arc::new(Control { socket, answers: Mutex::default(), dead: AtomicBool::new(false) });
        let (tell_lost, lost) = watch::channel(false);
        tokio::spawn({
            let (kind, control) = (kind.clone(), Arc::clone(&control));
            async move {
                control.read_answers(&kind, frames).await;
                // Whoever waits learns by the end of its channel that no answer will come.
                control.answers().waiting.clear();
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

    /// Asks for a tool to be started, with `output` as its stdout and stderr if it is given. What
    /// comes of it arrives on the channel, and so does the output if no fd for it was given.
    pub async fn start(
        &self,
        start: Start,
        output: Option<OwnedFd>,
    ) -> Result<ExecChannel, SidecarError> {
        let failed = |source| SidecarError::Start { kind: self.kind.clone(), source };
        let (ours, theirs) = pair().map_err(|errno| failed(errno.into()))?;
        let socket = Socket::new(ours).map_err(failed)?;
        let mut bytes = Vec::new();
        Frame::Start(start).encode(&mut bytes);
        // What the channel holds goes first, so that as a rule the runner finds all of it when it
        // gets its end; only then is there somebody to read the rest.
        let sent = socket.try_send(&bytes).map_err(failed)?;
        let fds = [Some(theirs), output].into_iter().flatten().collect();
        self.pass(fds).await?;
        let rest = bytes.get(sent..).unwrap_or_default();
        socket.send_all(rest).await.map_err(|_| SidecarError::Lost(self.kind.clone()))?;
        Ok(ExecChannel { socket, frames: FrameReader::new() })
    }

    /// Delivers a signal to the process group of a running exec, and returns when that was done.
    pub async fn signal(&self, id: &ExecId, signal: Signal) -> Result<Delivery, SidecarError> {
        let lost = || SidecarError::Lost(self.kind.clone());
        let (answer, answered) = oneshot::channel();
        let mut bytes = Vec::new();
        let serial = self.control.0.answers().expect(answer);
        Frame::Kill { serial, signal, id: id.clone() }.encode(&mut bytes);
        self.send_control(&bytes).await?;
        answered.await.map_err(|_| lost())
    }

    /// Tells that a channel of this runner ended without an ending.
    pub fn report_dead(&self) {
        self.control.0.dead.store(true, Ordering::Relaxed);
    }

    /// Whether the runner is gone, or on its way.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow() || self.control.0.dead.load(Ordering::Relaxed)
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

    /// Sends a whole frame. The control connection carries a few bytes per exec, so it is full only
    /// while the runner is stopped; a part of a frame is never left in it.
    async fn send_control(&self, bytes: &[u8]) -> Result<(), SidecarError> {
        let lost = |_| SidecarError::Lost(self.kind.clone());
        match self.socket().send(bytes).await.map_err(lost)? {
            sent if sent == bytes.len() => Ok(()),
            _ => {
                self.socket().shutdown(Shutdown::Both);
                Err(SidecarError::Lost(self.kind.clone()))
            }
        }
    }

    /// Hands fds over; ours are closed then.
    async fn pass(&self, fds: Vec<OwnedFd>) -> Result<(), SidecarError> {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let mut open = Vec::new();
        Frame::Open.encode(&mut open);
        loop {
            match send_with_fds(self.socket().as_fd(), &open, &fds) {
                Ok(()) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    let writable = self.socket().writable().await;
                    writable.map_err(|_| SidecarError::Lost(self.kind.clone()))?;
                }
                Err(_) => return Err(SidecarError::Lost(self.kind.clone())),
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.socket.shutdown(Shutdown::Both);
    }
}

impl Control {
    async fn read_answers(&self, kind: &Kind, mut frames: FrameReader) {
        loop {
            match frames.next_frame() {
                Ok(Some(Frame::Killed { serial, found })) => {
                    if let Some(waiting) = self.answers().waiting.remove(&serial) {
                        // The one who asked may have given up.
                        let _ = waiting.send(found);
                    }
                    continue;
                }
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => {
                    tracing::warn!(%kind, "a runner broke the protocol");
                    self.socket.shutdown(Shutdown::Both);
                    return;
                }
            }
            if !ExecChannel::fill(&self.socket, &mut frames).await.unwrap_or(false) {
                return;
            }
        }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the runner's first frame.
async fn hello(kind: &Kind, socket: &Socket, frames: &mut FrameReader) -> Result<u8, SidecarError> {
    loop {
        let protocol = |source| SidecarError::Protocol { kind: kind.clone(), source };
        match frames.next_frame().map_err(|error| protocol(Some(error)))? {
            Some(Frame::Hello { version }) => return Ok(version),
            Some(_) => return Err(protocol(None)),
            None => {}
        }
        let open = ExecChannel::fill(socket, frames).await;
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
