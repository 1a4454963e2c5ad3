//! The running execs, by id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aifo_sidecar::Runner;
use aifo_types::{ExecId, Refusal};
use tokio::sync::{Notify, oneshot, watch};

/// The ids in use, up to a maximum.
#[derive(Debug)]
pub(crate) struct Registry {
    max: usize,
    running: Mutex<HashMap<ExecId, Arc<RunningExec>>>,
    freed: Notify,
}

/// The state of an exec that `/signal` uses.
#[derive(Debug)]
pub(crate) struct RunningExec {
    /// The tool runner; `None` until the tool has started.
    runner: watch::Sender<Option<Runner>>,
    signalled: Mutex<Option<Instant>>,
    /// While the call waits for approval: takes the signal that ends the wait.
    unstarted: Mutex<Option<oneshot::Sender<u8>>>,
}

/// An id in use, released on drop.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Arc<Registry>,
    id: ExecId,
    running: Arc<RunningExec>,
}

/// For this time after a `/signal`, a disconnect sends no INT, and TERM only after 5 s: the tool handles
/// the caller's own signal first.
const RECENT_SIGNAL: Duration = Duration::from_millis(2500);

/// How long a call waits for an id, or for a place among the running execs.
const ID_RELEASE_TIMEOUT: Duration = Duration::from_millis(250);

impl Registry {
    pub(crate) fn new(max: usize) -> Self {
        Registry { max, running: Mutex::default(), freed: Notify::new() }
    }

    /// Takes an id. Waits 250 ms if it is in use, because a version 3 client receives `Exit` at the
    /// same time as the proxy and may call again before the proxy has released the id. Errors: 409
    /// if the id is in use, 429 at the maximum of running execs.
    pub(crate) async fn register(self: &Arc<Self>, id: &ExecId) -> Result<Registration, Refusal> {
        let deadline = tokio::time::Instant::now() + ID_RELEASE_TIMEOUT;
        loop {
            let freed = self.freed.notified();
            let refusal = match self.try_register(id) {
                Ok(registration) => return Ok(registration),
                Err(refusal) => refusal,
            };
            if tokio::time::timeout_at(deadline, freed).await.is_err() {
                return Err(refusal);
            }
        }
    }

    fn try_register(self: &Arc<Self>, id: &ExecId) -> Result<Registration, Refusal> {
        let mut running = self.lock();
        if running.contains_key(id) {
            return Err(Refusal::ExecIdInUse(id.clone()));
        }
        if running.len() >= self.max {
            return Err(Refusal::TooManyExecutions { limit: self.max });
        }
        let entry = Arc::new(RunningExec {
            runner: watch::Sender::new(None),
            signalled: Mutex::default(),
            unstarted: Mutex::default(),
        });
        running.insert(id.clone(), Arc::clone(&entry));
        Ok(Registration { registry: Arc::clone(self), id: id.clone(), running: entry })
    }

    /// Returns the running exec of that id.
    pub(crate) fn find(&self, id: &ExecId) -> Option<Arc<RunningExec>> {
        self.lock().get(id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecId, Arc<RunningExec>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningExec {
    /// Waits for the tool's start and returns its runner. `None` if the tool did not start.
    pub(crate) async fn runner(&self) -> Option<Runner> {
        let mut started = self.runner.subscribe();
        let runner = started.wait_for(Option::is_some).await.ok()?;
        runner.clone()
    }

    pub(crate) fn record_signal(&self) {
        *self.signalled.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

impl RunningExec {
    /// Ends the wait of a call for its approval. Returns false if it does not wait.
    pub(crate) fn signal_unstarted(&self, number: u8) -> bool {
        let sender = self.unstarted.lock().unwrap_or_else(PoisonError::into_inner).take();
        sender.is_some_and(|sender| sender.send(number).is_ok())
    }
}

impl Registration {
    /// Waits for a signal to a call that has not started, and returns its Linux number.
    pub(crate) async fn signalled_unstarted(&self) -> u8 {
        let (sender, receiver) = oneshot::channel();
        let unstarted = &self.running.unstarted;
        *unstarted.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        match receiver.await {
            Ok(number) => number,
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn id(&self) -> &ExecId {
        &self.id
    }

    /// Records the runner of the started tool.
    pub(crate) fn started(&self, runner: Runner) {
        self.running.runner.send_replace(Some(runner));
    }

    /// Returns whether a `/signal` came within the last 2.5 s.
    pub(crate) fn was_signalled_recently(&self) -> bool {
        let signalled = *self.running.signalled.lock().unwrap_or_else(PoisonError::into_inner);
        signalled.is_some_and(|at| at.elapsed() < RECENT_SIGNAL)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.id);
        self.registry.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_once_and_free_again() {
        let registry = Arc::new(Registry::new(2));
        let id = |text: &str| ExecId::parse(text.as_bytes()).unwrap();
        let first = registry.try_register(&id("a")).unwrap();
        let again = registry.try_register(&id("a")).unwrap_err();
        assert_eq!(again, Refusal::ExecIdInUse(id("a")));
        let _second = registry.try_register(&id("b")).unwrap();
        let third = registry.try_register(&id("c")).unwrap_err();
        assert_eq!(third, Refusal::TooManyExecutions { limit: 2 });
        assert!(registry.find(&id("a")).is_some());
        drop(first);
        assert!(registry.find(&id("a")).is_none());
        assert!(registry.try_register(&id("a")).is_ok());
    }

    #[test]
    fn a_signal_is_recent_for_a_while() {
        let registry = Arc::new(Registry::new(1));
        let id = ExecId::parse(b"a").unwrap();
        let registration = registry.try_register(&id).unwrap();
        assert!(!registration.was_signalled_recently());
        registry.find(&id).unwrap().record_signal();
        assert!(registration.was_signalled_recently());
        let long_ago = Instant::now().checked_sub(RECENT_SIGNAL).unwrap();
        *registration.running.signalled.lock().unwrap() = Some(long_ago);
        assert!(!registration.was_signalled_recently());
    }
}
