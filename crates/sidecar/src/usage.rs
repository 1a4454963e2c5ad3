//! Counts the users of a runner.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The number of users of a runner, and since when it is idle.
#[derive(Debug)]
pub(crate) struct Usage(Mutex<Count>);

#[derive(Debug)]
struct Count {
    users: usize,
    /// When the last user left, or the runner started.
    idle_since: Instant,
    is_outdated: bool,
}

/// One use of a runner, until this is dropped.
#[derive(Debug)]
pub(crate) struct UsageGuard(Arc<Usage>);

impl Usage {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Usage(Mutex::new(Count {
            users: 0,
            idle_since: Instant::now(),
            is_outdated: false,
        })))
    }

    pub(crate) fn acquire(self: &Arc<Self>) -> UsageGuard {
        self.lock().users += 1;
        UsageGuard(Arc::clone(self))
    }

    /// Returns since when the runner is idle; `None` while it is used.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let count = self.lock();
        (count.users == 0).then_some(count.idle_since)
    }

    /// Records that the runner is outdated. Returns whether it was recorded before.
    pub(crate) fn set_outdated(&self) -> bool {
        std::mem::replace(&mut self.lock().is_outdated, true)
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UsageGuard {
    fn drop(&mut self) {
        let mut count = self.0.lock();
        count.users = count.users.saturating_sub(1);
        count.idle_since = Instant::now();
    }
}
