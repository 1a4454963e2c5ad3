//! The right to use a runner.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use aifo_wire::Start;

use crate::exec::Exec;
use crate::runner::Runner;
use crate::usage::{Usage, UsageGuard};

/// A runner that can start tools. While a lease exists, or an exec that was started through one, the
/// runner is not retired, so no call is sent to a runner that is about to end.
#[derive(Debug)]
pub struct Lease {
    runner: Runner,
    usage: UsageGuard,
}

impl Lease {
    pub(crate) fn new(runner: Runner, usage: &Arc<Usage>) -> Self {
        Lease { runner, usage: usage.acquire() }
    }

    /// Returns the runner.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Starts a tool, as [`Runner::start`] does. The exec keeps the runner in use.
    pub fn start(self, start: Start, fds: Vec<OwnedFd>) -> Exec {
        self.runner.start(start, fds).holding(self.usage)
    }
}
