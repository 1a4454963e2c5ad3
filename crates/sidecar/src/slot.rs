//! The slot of one kind in a session: starts, leases, retires and restarts the kind's sidecar.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aifo_types::Kind;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backend::Backend;
use crate::deadline::deadline_reached;
use crate::error::SidecarError;
use crate::lease::Lease;
use crate::progress::{Progress, Reporter, SidecarEvent};
use crate::runner::{RetireOutcome, Runner};
use crate::usage::Usage;

/// One kind's sidecar. The first lease starts it, one start serves all waiting callers, and it is
/// retired after its idle timeout.
pub(crate) struct SidecarSlot {
    kind: Kind,
    backend: Arc<dyn Backend>,
    reporter: Reporter,
    /// The idle timeout; `None` for no timeout.
    idle_stop: Option<Duration>,
    running: Arc<RunningKinds>,
    state: Mutex<SlotState>,
}

pub(crate) type RunningKinds = watch::Sender<BTreeSet<Kind>>;

enum SlotState {
    Stopped,
    Starting(watch::Receiver<Option<Outcome>>),
    Active(ActiveRunner),
    /// `Retire` was sent. No frame follows before the runner's response.
    Retiring(ActiveRunner, watch::Receiver<()>),
    /// The session has ended.
    Closed,
}

/// Time for calls that have just ended to release an outdated sidecar, and between two attempts.
const OUTDATED_WAIT: Duration = Duration::from_millis(200);
const OUTDATED_PAUSE: Duration = Duration::from_millis(5);

/// The result of a start, for all callers that waited for it.
type Outcome = Result<(), Arc<SidecarError>>;

#[derive(Clone)]
struct ActiveRunner {
    runner: Runner,
    usage: Arc<Usage>,
}

/// The next step of a caller that needs the sidecar.
enum LeaseStep {
    Ready(Lease),
    AwaitStart(watch::Receiver<Option<Outcome>>),
    AwaitRetirement(watch::Receiver<()>),
    Unavailable,
}

/// An attempt to use the sidecar: the first, or after the caller has waited for a start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    AfterStart,
}

impl SidecarSlot {
    pub(crate) fn new(
        kind: Kind,
        backend: Arc<dyn Backend>,
        reporter: Reporter,
        idle_stop: Option<Duration>,
        running: Arc<RunningKinds>,
    ) -> Arc<Self> {
        let state = Mutex::new(SlotState::Stopped);
        Arc::new(SidecarSlot { kind, backend, reporter, idle_stop, running, state })
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Leases the sidecar if it runs and need not be replaced.
    pub(crate) fn ready(&self) -> Option<Lease> {
        match &*self.lock() {
            SlotState::Active(active) if active.is_usable() => Some(active.lease()),
            _ => None,
        }
    }

    /// Returns the runner if it serves calls.
    pub(crate) fn busy_runner(&self) -> Option<Runner> {
        match &*self.lock() {
            SlotState::Active(active) if !active.runner.is_lost() => {
                active.usage.idle_since().is_none().then(|| active.runner.clone())
            }
            _ => None,
        }
    }

    /// Leases the sidecar, and starts it first if it does not run. A lost sidecar is started again: only
    /// its running calls have failed. If the future is dropped, the start continues for the next caller.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<Lease, Arc<SidecarError>> {
        self.retire_outdated().await;
        let mut attempt = Attempt::First;
        loop {
            match self.step(attempt) {
                LeaseStep::Ready(lease) => return Ok(lease),
                LeaseStep::AwaitStart(outcome) => {
                    self.await_start(outcome).await?;
                    attempt = Attempt::AfterStart;
                }
                // The state has changed in either case.
                LeaseStep::AwaitRetirement(mut answer) => drop(answer.changed().await),
                LeaseStep::Unavailable => return Err(Arc::new(self.unavailable())),
            }
        }
    }

    /// Begins to start the sidecar unless it runs or starts. The future returns the result.
    pub(crate) fn begin_start(self: &Arc<Self>) -> impl Future<Output = Outcome> + use<> {
        let step = self.step(Attempt::First);
        let slot = Arc::clone(self);
        async move {
            match step {
                LeaseStep::AwaitStart(outcome) => slot.await_start(outcome).await,
                LeaseStep::Ready(_) | LeaseStep::AwaitRetirement(_) => Ok(()),
                LeaseStep::Unavailable => Err(Arc::new(slot.unavailable())),
            }
        }
    }

    /// Stops the sidecar and returns when nothing of it is left. It cannot be started again.
    pub(crate) async fn close(&self) {
        let before = std::mem::replace(&mut *self.lock(), SlotState::Closed);
        match before {
            SlotState::Stopped | SlotState::Closed => {}
            // `activate` closes it: to abort a start would leave a container behind.
            SlotState::Starting(mut outcome) => drop(outcome.wait_for(Option::is_some).await),
            SlotState::Active(active) | SlotState::Retiring(active, _) => {
                active.runner.close().await;
            }
        }
    }

    fn step(self: &Arc<Self>, attempt: Attempt) -> LeaseStep {
        let mut state = self.lock();
        let old = match &*state {
            SlotState::Active(active) if !active.runner.is_lost() => {
                return LeaseStep::Ready(active.lease());
            }
            SlotState::Starting(outcome) => return LeaseStep::AwaitStart(outcome.clone()),
            SlotState::Retiring(_, answer) => return LeaseStep::AwaitRetirement(answer.clone()),
            // A sidecar that ends right after each start must not be started in a loop.
            SlotState::Active(_) if attempt == Attempt::AfterStart => {
                return LeaseStep::Unavailable;
            }
            SlotState::Active(active) => Some(active.runner.clone()),
            SlotState::Stopped => None,
            SlotState::Closed => return LeaseStep::Unavailable,
        };
        let (sender, outcome) = watch::channel(None);
        *state = SlotState::Starting(outcome.clone());
        tokio::spawn(Arc::clone(self).start(old, sender));
        LeaseStep::AwaitStart(outcome)
    }

    async fn await_start(&self, mut outcome: watch::Receiver<Option<Outcome>>) -> Outcome {
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            // The runtime shuts down, and the starting task was dropped.
            Ok(None) | Err(_) => Err(Arc::new(self.unavailable())),
        }
    }

    async fn start(self: Arc<Self>, old: Option<Runner>, sender: watch::Sender<Option<Outcome>>) {
        if let Some(old) = old {
            tracing::warn!(kind = %self.kind, "sidecar was lost, starting it again");
            old.close().await;
        }
        self.reporter.report(&self.kind, SidecarEvent::Starting);
        let began = Instant::now();
        let progress = Progress::new(self.kind.clone(), self.reporter.clone());
        // In its own task, so that a panic of the backend is a failed start.
        let started = tokio::spawn(self.backend.start(self.kind.clone(), progress)).await;
        let started = started.unwrap_or_else(|panicked| {
            let source = io::Error::other(panicked);
            Err(SidecarError::Start { kind: self.kind.clone(), source })
        });
        let outcome = match started {
            Ok(runner) => self.activate(runner, began.elapsed()).await,
            Err(error) => {
                self.reporter.report(&self.kind, SidecarEvent::Failed(&error));
                self.set_state(SlotState::Stopped);
                Err(Arc::new(error))
            }
        };
        sender.send_replace(Some(outcome));
    }

    async fn activate(self: &Arc<Self>, runner: Runner, took: Duration) -> Outcome {
        let active = ActiveRunner { runner, usage: Usage::new() };
        // Reported before the first use.
        self.reporter.report(&self.kind, SidecarEvent::Ready(took));
        if !self.set_state(SlotState::Active(active.clone())) {
            active.runner.close().await;
            return Err(Arc::new(self.unavailable()));
        }
        let lost = active.runner.lost();
        tokio::spawn(watch_active(Arc::downgrade(self), active.usage, lost));
        Ok(())
    }

    /// Sets the state, unless the session has ended.
    fn set_state(&self, to: SlotState) -> bool {
        let mut state = self.lock();
        if matches!(*state, SlotState::Closed) {
            return false;
        }
        let runs = matches!(to, SlotState::Active(_));
        *state = to;
        self.publish_running(runs);
        true
    }

    /// Removes a lost sidecar from the running kinds.
    fn mark_lost(&self, lost: &Arc<Usage>) {
        let state = self.lock();
        if matches!(&*state, SlotState::Active(active) if Arc::ptr_eq(&active.usage, lost)) {
            self.publish_running(false);
        }
    }

    /// Called with the state locked, so that the changes are published in their order.
    fn publish_running(&self, runs: bool) {
        self.running.send_if_modified(|running| match runs {
            true => running.insert(self.kind.clone()),
            false => running.remove(&self.kind),
        });
    }

    /// Retires the sidecar if it was idle for `after`. Returns `None` when it has ended; otherwise the
    /// time of the next check, also if background processes still run in it.
    async fn retire(
        &self,
        usage: &Arc<Usage>,
        after: Duration,
        event: SidecarEvent<'_>,
    ) -> Option<Instant> {
        let (sender, answer) = watch::channel(());
        let active = {
            let mut state = self.lock();
            let SlotState::Active(active) = &*state else { return None };
            let Some(since) = usage.idle_since() else { return Some(Instant::now() + after) };
            if since + after > Instant::now() {
                return Some(since + after);
            }
            // There is no lease, and from here on none is given, so no call can follow `Retire`.
            let active = active.clone();
            *state = SlotState::Retiring(active.clone(), answer);
            active
        };
        let answered = active.runner.retire().await;
        let again = match answered {
            RetireOutcome::Busy => {
                tracing::debug!(kind = %self.kind, "sidecar stays, something still runs in it");
                self.set_state(SlotState::Active(active));
                Some(Instant::now() + after)
            }
            RetireOutcome::Retired => {
                self.reporter.report(&self.kind, event);
                self.set_state(SlotState::Stopped);
                None
            }
        };
        // There may be no waiting caller.
        let _ = sender.send(());
        again
    }

    /// Retires the sidecar if it must be replaced and nothing runs in it.
    async fn retire_outdated(&self) {
        let (usage, cause) = match &*self.lock() {
            SlotState::Active(active) if !active.runner.is_lost() => {
                let Some(cause) = active.runner.outdated() else { return };
                (Arc::clone(&active.usage), cause)
            }
            _ => return,
        };
        // A call that has just ended may still hold its lease. Only the first caller waits for it.
        let wait = if usage.set_outdated() { Duration::ZERO } else { OUTDATED_WAIT };
        let deadline = Instant::now() + wait;
        while self.retire(&usage, Duration::ZERO, SidecarEvent::Outdated(cause)).await.is_some() {
            if Instant::now() >= deadline {
                tracing::debug!(kind = %self.kind, "outdated sidecar stays, something runs in it");
                return;
            }
            tokio::time::sleep(OUTDATED_PAUSE).await;
        }
    }

    fn unavailable(&self) -> SidecarError {
        match *self.lock() {
            SlotState::Closed => SidecarError::NotRunning(self.kind.clone()),
            _ => SidecarError::Lost(self.kind.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveRunner {
    fn is_usable(&self) -> bool {
        !self.runner.is_lost() && self.runner.outdated().is_none()
    }

    fn lease(&self) -> Lease {
        Lease::new(self.runner.clone(), &self.usage)
    }
}

/// Watches an active sidecar for its idle timeout and its end. Holds no reference that keeps it
/// running.
async fn watch_active(slot: Weak<SidecarSlot>, usage: Arc<Usage>, lost: impl Future<Output = ()>) {
    let mut lost = pin!(lost);
    let after = slot.upgrade().and_then(|slot| slot.idle_stop);
    let mut next = after.map(|after| Instant::now() + after);
    loop {
        tokio::select! {
            () = &mut lost => break,
            () = deadline_reached(next) => {}
        }
        let (Some(slot), Some(after)) = (slot.upgrade(), after) else { return };
        next = slot.retire(&usage, after, SidecarEvent::Idle(after)).await;
        if next.is_none() {
            return;
        }
    }
    if let Some(slot) = slot.upgrade() {
        slot.mark_lost(&usage);
    }
}
