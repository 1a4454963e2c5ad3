//! The place of one kind in a session, with a sidecar in it or without.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aifo_types::Kind;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::backend::{Backend, SidecarError};
use crate::lease::{Lease, Usage};
use crate::progress::{News, Progress, Reporter};
use crate::runner::{Answer, Runner};

/// One kind's sidecar: started when it is needed, once for all who wait for it, and sent home when it
/// has had nothing to do for long enough.
pub(crate) struct Seat {
    kind: Kind,
    backend: Arc<dyn Backend>,
    reporter: Reporter,
    /// How long a sidecar may have nothing to do; `None` for ever.
    idle_stop: Option<Duration>,
    running: Arc<Running>,
    state: Mutex<State>,
}

/// The kinds that run at the moment.
pub(crate) type Running = watch::Sender<BTreeSet<Kind>>;

/// Whoever needs the sidecar finds it here, or what to wait for.
enum State {
    Vacant,
    Starting(watch::Receiver<Option<Outcome>>),
    Up(Occupant),
    /// It was asked to go, and has not answered yet. Nothing is sent to it until it has.
    Leaving(Occupant, watch::Receiver<()>),
    /// The session is over.
    Closed,
}

/// What came of a start. Everybody who waited for it is told the same.
type Outcome = Result<(), Arc<SidecarError>>;

#[derive(Clone)]
struct Occupant {
    runner: Runner,
    usage: Arc<Usage>,
}

/// What somebody who needs the sidecar can do now.
enum Step {
    Take(Lease),
    AwaitStart(watch::Receiver<Option<Outcome>>),
    AwaitAnswer(watch::Receiver<()>),
    GiveUp,
}

/// Whether somebody has already waited for the sidecar to come up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Fresh,
    Spent,
}

impl Seat {
    pub(crate) fn new(
        kind: Kind,
        backend: Arc<dyn Backend>,
        reporter: Reporter,
        idle_stop: Option<Duration>,
        running: Arc<Running>,
    ) -> Arc<Self> {
        let state = Mutex::new(State::Vacant);
        Arc::new(Seat { kind, backend, reporter, idle_stop, running, state })
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The sidecar if it is up and stays.
    pub(crate) fn ready(&self) -> Option<Lease> {
        match &*self.lock() {
            State::Up(occupant) if !occupant.runner.is_lost() => Some(occupant.lease()),
            _ => None,
        }
    }

    /// The sidecar, started if it has to be. One that was lost is started again: the calls it ran have
    /// failed already, and the next one deserves a sidecar. Dropped before its end, a start goes on for
    /// whoever comes next.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<Lease, Arc<SidecarError>> {
        let mut patience = Patience::Fresh;
        loop {
            match self.step(patience) {
                Step::Take(lease) => return Ok(lease),
                Step::AwaitStart(outcome) => {
                    self.started(outcome).await?;
                    patience = Patience::Spent;
                }
                // Either way there is something new to see.
                Step::AwaitAnswer(mut answer) => drop(answer.changed().await),
                Step::GiveUp => return Err(Arc::new(self.unavailable())),
            }
        }
    }

    /// Begins to start the sidecar unless it is up, or on its way; what comes of it is the future's.
    pub(crate) fn begin(self: &Arc<Self>) -> impl Future<Output = Outcome> + use<> {
        let step = self.step(Patience::Fresh);
        let seat = Arc::clone(self);
        async move {
            match step {
                Step::AwaitStart(outcome) => seat.started(outcome).await,
                Step::Take(_) | Step::AwaitAnswer(_) => Ok(()),
                Step::GiveUp => Err(Arc::new(seat.unavailable())),
            }
        }
    }

    /// Takes the sidecar down and returns when nothing of it is left. There is no other after it.
    pub(crate) async fn close(&self) {
        let before = std::mem::replace(&mut *self.lock(), State::Closed);
        match before {
            State::Vacant | State::Closed => {}
            // Whoever starts it closes it when it is up: a start that is broken off leaves things behind.
            State::Starting(mut outcome) => drop(outcome.wait_for(Option::is_some).await),
            State::Up(occupant) | State::Leaving(occupant, _) => occupant.runner.close().await,
        }
    }

    fn step(self: &Arc<Self>, patience: Patience) -> Step {
        let mut state = self.lock();
        let old = match &*state {
            State::Up(occupant) if !occupant.runner.is_lost() => {
                return Step::Take(occupant.lease());
            }
            State::Starting(outcome) => return Step::AwaitStart(outcome.clone()),
            State::Leaving(_, answer) => return Step::AwaitAnswer(answer.clone()),
            // One that goes as soon as it is up would be started for ever.
            State::Up(_) if patience == Patience::Spent => return Step::GiveUp,
            State::Up(occupant) => Some(occupant.runner.clone()),
            State::Vacant => None,
            State::Closed => return Step::GiveUp,
        };
        let (tell, outcome) = watch::channel(None);
        *state = State::Starting(outcome.clone());
        tokio::spawn(Arc::clone(self).start(old, tell));
        Step::AwaitStart(outcome)
    }

    async fn started(&self, mut outcome: watch::Receiver<Option<Outcome>>) -> Outcome {
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            // The runtime is on its way down, and the task that starts it is gone.
            Ok(None) | Err(_) => Err(Arc::new(self.unavailable())),
        }
    }

    async fn start(self: Arc<Self>, old: Option<Runner>, tell: watch::Sender<Option<Outcome>>) {
        if let Some(old) = old {
            tracing::warn!(kind = %self.kind, "sidecar was lost, starting it again");
            // Until nothing of the old one is left.
            old.close().await;
        }
        self.reporter.tell(&self.kind, News::Starting);
        let began = Instant::now();
        let progress = Progress::new(self.kind.clone(), self.reporter.clone());
        // In a task of its own: a backend that panics has failed to start it, and nobody waits for ever.
        let started = tokio::spawn(self.backend.start(self.kind.clone(), progress)).await;
        let started = started.unwrap_or_else(|panicked| {
            let source = io::Error::other(panicked);
            Err(SidecarError::Start { kind: self.kind.clone(), source })
        });
        let outcome = match started {
            Ok(runner) => self.move_in(runner, began.elapsed()).await,
            Err(error) => {
                self.reporter.tell(&self.kind, News::Failed(&error));
                self.change(State::Vacant);
                Err(Arc::new(error))
            }
        };
        tell.send_replace(Some(outcome));
    }

    async fn move_in(self: &Arc<Self>, runner: Runner, took: Duration) -> Outcome {
        let occupant = Occupant { runner, usage: Usage::new() };
        // Before anybody can use it, so that whoever did finds it told.
        self.reporter.tell(&self.kind, News::Ready(took));
        if !self.change(State::Up(occupant.clone())) {
            occupant.runner.close().await;
            return Err(Arc::new(self.unavailable()));
        }
        let lost = occupant.runner.lost();
        tokio::spawn(look_after(Arc::downgrade(self), occupant.usage, lost));
        Ok(())
    }

    /// Puts another state in the place of the last, unless the session is over.
    fn change(&self, to: State) -> bool {
        let mut state = self.lock();
        if matches!(*state, State::Closed) {
            return false;
        }
        let runs = matches!(to, State::Up(_));
        *state = to;
        self.tell_running(runs);
        true
    }

    /// The sidecar that was used so is gone, by itself or by force.
    fn forget(&self, lost: &Arc<Usage>) {
        let state = self.lock();
        if matches!(&*state, State::Up(occupant) if Arc::ptr_eq(&occupant.usage, lost)) {
            self.tell_running(false);
        }
    }

    /// Called with the state locked, so that the last change is the one that is told last.
    fn tell_running(&self, runs: bool) {
        self.running.send_if_modified(|running| match runs {
            true => running.insert(self.kind.clone()),
            false => running.remove(&self.kind),
        });
    }

    /// Asks the sidecar to go if it has had nothing to do for so long. Otherwise, or if something of
    /// its own still runs there, the result is when to see again; `None` when it has gone.
    async fn retire(&self, usage: &Arc<Usage>, after: Duration) -> Option<Instant> {
        let (tell, answer) = watch::channel(());
        let occupant = {
            let mut state = self.lock();
            let State::Up(occupant) = &*state else { return None };
            let Some(since) = usage.idle_since() else { return Some(Instant::now() + after) };
            if since + after > Instant::now() {
                return Some(since + after);
            }
            // From here on nobody gets a lease, and nobody has one: no call can follow the question.
            let occupant = occupant.clone();
            *state = State::Leaving(occupant.clone(), answer);
            occupant
        };
        let answered = occupant.runner.retire().await;
        let again = match answered {
            Answer::Stays => {
                tracing::debug!(kind = %self.kind, "sidecar stays, something still runs in it");
                self.change(State::Up(occupant));
                Some(Instant::now() + after)
            }
            Answer::Goes => {
                self.reporter.tell(&self.kind, News::Idle(after));
                self.change(State::Vacant);
                None
            }
        };
        // Nobody may be waiting.
        let _ = tell.send(());
        again
    }

    fn unavailable(&self) -> SidecarError {
        match *self.lock() {
            State::Closed => SidecarError::NotRunning(self.kind.clone()),
            _ => SidecarError::Lost(self.kind.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Occupant {
    fn lease(&self) -> Lease {
        Lease::new(self.runner.clone(), &self.usage)
    }
}

/// Looks after a sidecar that is up, until it is gone. It holds nothing that would keep it up.
async fn look_after(seat: Weak<Seat>, usage: Arc<Usage>, lost: impl Future<Output = ()>) {
    let mut lost = pin!(lost);
    let after = seat.upgrade().and_then(|seat| seat.idle_stop);
    let mut next = after.map(|after| Instant::now() + after);
    loop {
        tokio::select! {
            () = &mut lost => break,
            () = until(next) => {}
        }
        let (Some(seat), Some(after)) = (seat.upgrade(), after) else { return };
        next = seat.retire(&usage, after).await;
        if next.is_none() {
            return;
        }
    }
    if let Some(seat) = seat.upgrade() {
        seat.forget(&usage);
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
