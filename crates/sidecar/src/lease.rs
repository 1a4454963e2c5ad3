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
    stay: Stay,
}

impl Lease {
    pub(crate) fn new(runner: Runner, usage: &Arc<Usage>) -> Self {
        Lease { runner, stay: usage.enter() }
    }

    /// The runner itself.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Asks for a tool to be started, as [`Runner::start`] does. The exec takes over from the lease.
    pub fn start(self, start: Start, fds: Vec<OwnedFd>) -> Exec {
        self.runner.start(start, fds).staying(self.stay)
    }
}

/// How much a runner is used.
#[derive(Debug)]
pub(crate) struct Usage(Mutex<Count>);

#[derive(Debug)]
struct Count {
    stays: usize,
    /// When the last of them ended, or the runner came up.
    idle_since: Instant,
}

/// One use of a runner, as long as this lives.
#[derive(Debug)]
pub(crate) struct Stay(Arc<Usage>);

impl Usage {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Usage(Mutex::new(Count { stays: 0, idle_since: Instant::now() })))
    }

    fn enter(self: &Arc<Self>) -> Stay {
        self.lock().stays += 1;
        Stay(Arc::clone(self))
    }

    /// Since when nobody uses the runner; `None` while somebody does.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let count = self.lock();
        (count.stays == 0).then_some(count.idle_since)
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut count = self.0.lock();
        count.stays = count.stays.saturating_sub(1);
        count.idle_since = Instant::now();
    }
}
