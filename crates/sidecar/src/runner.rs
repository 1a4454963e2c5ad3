//! A connected runner: its start, its signals, its end.

use std::future::Future;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use aifo_types::{ExecId, Kind, Signal};
use aifo_wire::{
    Delivery, FRAMES_VERSION, Frame, FrameReader, Listener, ListenerReport, OnlyCall, Setup,
    SocketType,
};
use tokio::sync::{oneshot, watch};

use crate::control::{ControlConnection, ListenerReceiver, PassesSockets, read_hello};
use crate::error::SidecarError;
use crate::link::Link;
use crate::listeners::StackListeners;
use crate::progress::OutdatedCause;
use crate::relayed_stack::RelayedStack;
use crate::stack_server::{ServedStack, WatchIntervals};
use crate::stack_sockets::StackSockets;
use crate::translation::PathTranslation;

/// A runner that has answered. Cheap to clone. The connection closes with [`Runner::close`] or with
/// the last clone, and the sidecar ends with it.
#[derive(Clone, Debug)]
pub struct Runner {
    kind: Kind,
    control: Arc<ControlHandle>,
    lost: watch::Receiver<bool>,
    translation: Arc<PathTranslation>,
    shares_kernel: bool,
    outdated: Option<Outdated>,
}

/// Checks whether a runner must be replaced before its next use.
#[derive(Clone)]
struct Outdated(Arc<dyn Fn() -> Option<OutdatedCause> + Send + Sync>);

/// Closes the connection when the last clone of the runner is dropped. The reading task does not
/// hold it.
#[derive(Debug)]
struct ControlHandle(Arc<ControlConnection>);

/// Whether a runner holds a network stack, whose sockets it passes.
#[derive(Clone, Copy)]
pub(crate) enum StackRole<'a> {
    /// It does not.
    None,
    /// The stack has the engine network.
    Joined,
    /// The stack has listeners for DNS and these ports.
    Served(&'a [u16]),
}

/// A runner's response to `Retire`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetireOutcome {
    /// It has ended.
    Retired,
    /// A process still runs below it.
    Busy,
}

/// Time for a runner to send its first frame, and to bind listeners.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a runner to end its tools and itself: the 3 s of the signal escalation, and a margin.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(6);

impl Runner {
    /// Waits for the first frame of the runner at the other end of `control`, a unix stream socket,
    /// then sends it the session directories.
    pub async fn connect(
        kind: Kind,
        control: OwnedFd,
        setup: &Setup,
    ) -> Result<Self, SidecarError> {
        let link = Link::socket(control);
        let connected = Self::connect_over(link, kind, setup, StackRole::None).await;
        connected.map(|(runner, _)| runner)
    }

    /// As [`Runner::connect`], with a runner that holds a network stack and passes its
    /// [sockets](Runner::stack_sockets).
    pub async fn connect_joined(
        kind: Kind,
        control: OwnedFd,
        setup: &Setup,
    ) -> Result<Self, SidecarError> {
        let connected = Self::connect_in_role(kind, control, setup, StackRole::Joined).await;
        connected.map(|(runner, _)| runner)
    }

    /// As [`Runner::connect`], with a runner that may hold a network stack. Errors: it could not bind the
    /// listeners, or passed anything else.
    pub(crate) async fn connect_in_role(
        kind: Kind,
        control: OwnedFd,
        setup: &Setup,
        role: StackRole<'_>,
    ) -> Result<(Self, Option<ServedStack>), SidecarError> {
        Self::connect_over(Link::socket(control), kind, setup, role).await
    }

    /// As [`Runner::connect`], and has the runner bind the listeners of its network stack for these
    /// ports. Errors: the runner could not, or passed anything else.
    pub async fn connect_listening(
        kind: Kind,
        control: OwnedFd,
        setup: &Setup,
        ports: &[u16],
    ) -> Result<(Self, StackListeners), SidecarError> {
        let link = Link::socket(control);
        match Self::connect_over(link, kind.clone(), setup, StackRole::Served(ports)).await? {
            (runner, Some(ServedStack::Passed(listeners))) => Ok((runner, listeners)),
            _ => Err(SidecarError::Protocol { kind, source: None }),
        }
    }

    /// As [`Runner::connect`], with a runner whose stdout is `reader` and whose stdin is `writer`. It
    /// takes no descriptors; frames carry the bytes instead. Both must be pipes. Sets `O_NONBLOCK`.
    pub async fn connect_stream(
        kind: Kind,
        reader: OwnedFd,
        writer: OwnedFd,
        setup: &Setup,
    ) -> Result<Self, SidecarError> {
        let role = StackRole::None;
        let connected = Self::connect_stream_in_role(kind, reader, writer, setup, role).await;
        connected.map(|(runner, _)| runner)
    }

    /// As [`Runner::connect_stream`], with a runner that may hold a network stack.
    pub(crate) async fn connect_stream_in_role(
        kind: Kind,
        reader: OwnedFd,
        writer: OwnedFd,
        setup: &Setup,
        role: StackRole<'_>,
    ) -> Result<(Self, Option<ServedStack>), SidecarError> {
        let link = Link::pipes(reader, writer);
        let failed = |source| SidecarError::Start { kind: kind.clone(), source };
        Self::connect_over(link.map_err(failed)?, kind, setup, role).await
    }

    /// As [`Runner::connect_stream`], and has the runner bind the listeners of its network stack for these
    /// ports, and relay their connections. Errors: the runner could not.
    pub async fn connect_stream_listening(
        kind: Kind,
        reader: OwnedFd,
        writer: OwnedFd,
        setup: &Setup,
        ports: &[u16],
    ) -> Result<(Self, RelayedStack), SidecarError> {
        let role = StackRole::Served(ports);
        match Self::connect_stream_in_role(kind.clone(), reader, writer, setup, role).await? {
            (runner, Some(ServedStack::Relayed(stack))) => Ok((runner, stack)),
            _ => Err(SidecarError::Protocol { kind, source: None }),
        }
    }

    async fn connect_over(
        link: Link,
        kind: Kind,
        setup: &Setup,
        held: StackRole<'_>,
    ) -> Result<(Self, Option<ServedStack>), SidecarError> {
        let mut frames = FrameReader::new();
        let hello = read_hello(&kind, &link, &mut frames);
        let version = match tokio::time::timeout(HELLO_TIMEOUT, hello).await {
            Ok(version) => version?,
            Err(_) => return Err(SidecarError::NoAnswer { kind, timeout: HELLO_TIMEOUT }),
        };
        if version != FRAMES_VERSION {
            return Err(SidecarError::Version {
                kind,
                runner_version: version,
                own_version: FRAMES_VERSION,
            });
        }
        let control = Arc::new(ControlConnection::new(link));
        control.send(&Frame::Setup(setup.clone()));
        let mut listeners = None;
        if let StackRole::Served(ports) = held {
            let bound = control.listen(&kind, &mut frames, ports);
            listeners = match tokio::time::timeout(HELLO_TIMEOUT, bound).await {
                Ok(bound) => Some(match bound? {
                    Some(listeners) => ServedStack::Passed(listeners),
                    None => ServedStack::Relayed(control.relay_stack()),
                }),
                Err(_) => return Err(SidecarError::NoAnswer { kind, timeout: HELLO_TIMEOUT }),
            };
        }
        let passes = match held {
            StackRole::Joined | StackRole::Served(_) if control.takes_descriptors() => {
                PassesSockets::Yes
            }
            _ => PassesSockets::No,
        };
        if matches!(held, StackRole::Joined) && !control.takes_descriptors() {
            // It has no clients of its own, only requested sockets.
            drop(control.relay_stack());
        }
        let (lost_sender, lost) = watch::channel(false);
        tokio::spawn({
            let (kind, control) = (kind.clone(), Arc::clone(&control));
            async move {
                control.serve(&kind, frames, passes).await;
                // All receivers may have been dropped.
                let _ = lost_sender.send(true);
            }
        });
        let control = Arc::new(ControlHandle(control));
        let translation = Arc::default();
        let runner =
            Runner { kind, control, lost, translation, shares_kernel: true, outdated: None };
        Ok((runner, listeners))
    }

    /// Returns what opens sockets in the runner network stack, if it was connected for that.
    pub fn stack_sockets(&self) -> StackSockets {
        StackSockets::new(Arc::clone(self.control()))
    }

    /// Sends the receiver what listens in the runner network stack, after each change.
    pub(crate) fn receive_listeners(
        &self,
        receive: impl Fn(ListenerReport, Vec<Listener>) + Send + 'static,
    ) {
        self.control().replies().listeners = Some(ListenerReceiver(Box::new(receive)));
    }

    /// Has the runner report its stack's listeners while tools run.
    pub(crate) fn watch_listeners(&self, intervals: WatchIntervals) {
        let ms = |interval: Duration| u16::try_from(interval.as_millis()).unwrap_or(u16::MAX);
        let (interval, background) = (ms(intervals.execs), ms(intervals.background));
        self.control().send(&Frame::Watch { interval, background });
    }

    /// Sets the translation of the clients' directories to the runner's.
    pub(crate) fn with_translation(self, translation: PathTranslation) -> Self {
        Runner { translation: Arc::new(translation), ..self }
    }

    /// Sets whether the runner has this machine's kernel; the default is true.
    pub(crate) fn with_shared_kernel(self, shares_kernel: bool) -> Self {
        Runner { shares_kernel, ..self }
    }

    /// Sets the check whether the runner must be replaced before its next use.
    pub(crate) fn with_outdated(
        self,
        outdated: impl Fn() -> Option<OutdatedCause> + Send + Sync + 'static,
    ) -> Self {
        Runner { outdated: Some(Outdated(Arc::new(outdated))), ..self }
    }

    /// Returns why the runner must be replaced before its next use, if it must.
    pub(crate) fn outdated(&self) -> Option<OutdatedCause> {
        self.outdated.as_ref().and_then(|Outdated(check)| check())
    }

    pub(crate) fn shares_kernel(&self) -> bool {
        self.shares_kernel
    }

    pub(crate) fn translation(&self) -> &PathTranslation {
        &self.translation
    }

    pub(crate) fn control(&self) -> &Arc<ControlConnection> {
        &self.control.0
    }

    /// Returns the kind of the sidecar.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Sends a signal to the process group of a running exec, and returns when it was delivered.
    pub async fn signal(&self, id: &ExecId, signal: Signal) -> Result<Delivery, SidecarError> {
        let (sender, delivered) = oneshot::channel();
        let serial = {
            let mut replies = self.control().replies();
            let serial = replies.next_serial();
            replies.signals.insert(serial, sender);
            serial
        };
        self.control().send(&Frame::Kill { serial, signal, id: id.clone() });
        delivered.await.map_err(|_| SidecarError::Lost(self.kind.clone()))
    }

    /// Has the runner find the call that a socket of its network stack belongs to, and keep `text` for the
    /// call's client. `None` if it is none of its calls, or the runner is lost.
    pub async fn find_caller(
        &self,
        (socket, port): (SocketType, u16),
        only: OnlyCall,
        text: String,
    ) -> Option<ExecId> {
        let (sender, found) = oneshot::channel();
        let serial = {
            let mut replies = self.control().replies();
            let serial = replies.next_serial();
            replies.callers.insert(serial, sender);
            serial
        };
        let frame = Frame::FindCaller { serial, socket, port, only, text };
        self.control().send(&frame);
        found.await.ok().flatten()
    }

    /// Has the runner end if no process runs below it. A runner that ends reads no further frames, so
    /// the caller must not start a tool meanwhile.
    pub(crate) async fn retire(&self) -> RetireOutcome {
        let (sender, busy) = oneshot::channel();
        self.control().replies().busy = Some(sender);
        if self.is_lost() {
            // There would be no reply.
            self.control().replies().busy = None;
        }
        self.control().send(&Frame::Retire);
        match busy.await {
            Ok(()) => RetireOutcome::Busy,
            Err(_) => {
                self.lost().await;
                RetireOutcome::Retired
            }
        }
    }

    /// Waits until the runner has read all frames but a few, or is lost. Cancel-safe.
    pub async fn writable(&self) {
        tokio::select! {
            biased;
            () = self.control().writable() => {}
            () = self.lost() => {}
        }
    }

    /// Returns whether the connection to the runner has ended.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Returns a check whether the connection to the runner has ended, which does not keep it open.
    pub(crate) fn loss(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let lost = self.lost.clone();
        move || *lost.borrow()
    }

    /// Waits until the runner and every process below it have ended. The future does not keep the
    /// connection open.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            // An error means that the reading task has ended, which has the same effect.
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }

    /// Has the runner end its tools by signal escalation and end itself, and returns when it has. After
    /// 6 s the connection is closed; then the guard, or the container, ends the runner.
    pub async fn close(&self) {
        self.control().shutdown(Shutdown::Write);
        if tokio::time::timeout(CLOSE_TIMEOUT, self.lost()).await.is_err() {
            tracing::warn!(kind = %self.kind, "a sidecar did not end in time");
            self.control().shutdown(Shutdown::Both);
        }
    }
}

impl std::fmt::Debug for Outdated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outdated").finish_non_exhaustive()
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        self.0.shutdown(Shutdown::Both);
    }
}
