//! The right to use a runner, which keeps it from being sent home.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_wire::Start;
use tokio::time::Instant;

use crate::exec::Exec;
use crate::runner::Runner;

/// A runner for whoever wants to start something in it. While a lease of it is out, or an exec that was
/// started by one, nobody asks the runner to go, so that no call is ever sent to one that is leaving.
#[derive(Debug)]
pub struct Lease {
    runner: Runner,
    usage: UsageGuard,
}

impl Lease {
    pub(crate) fn new(runner: Runner, usage: &Arc<Usage>) -> Self {
        Lease { runner, usage: usage.acquire() }
    }

    /// The runner itself.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Asks for a tool to be started, as [`Runner::start`] does. The exec takes over from the lease.
    pub fn start(self, start: Start, fds: Vec<OwnedFd>) -> Exec {
        self.runner.start(start, fds).holding(self.usage)
    }
}

/// How much a runner is used.
#[derive(Debug)]
pub(crate) struct Usage(Mutex<Count>);

#[derive(Debug)]
struct Count {
    users: usize,
    /// When the last of them ended, or the runner came up.
    idle_since: Instant,
}

/// One use of a runner, as long as this lives.
#[derive(Debug)]
pub(crate) struct UsageGuard(Arc<Usage>);

impl Usage {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Usage(Mutex::new(Count { users: 0, idle_since: Instant::now() })))
    }

    fn acquire(self: &Arc<Self>) -> UsageGuard {
        self.lock().users += 1;
        UsageGuard(Arc::clone(self))
    }

    /// Since when nobody uses the runner; `None` while somebody does.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let count = self.lock();
        (count.users == 0).then_some(count.idle_since)
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
