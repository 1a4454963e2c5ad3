//! What the tools of a session came to.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aifo_proxy::{CallEnding, CallRecord};

/// Counts over a session's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub calls: u64,
    /// Those that were refused, or ended otherwise than with 0.
    pub failed: u64,
    /// How long the tools ran, one after the other.
    pub in_tools: Duration,
}

impl Tally {
    /// What came after another one.
    pub fn since(self, before: Tally) -> Tally {
        Tally {
            calls: self.calls.saturating_sub(before.calls),
            failed: self.failed.saturating_sub(before.failed),
            in_tools: self.in_tools.saturating_sub(before.in_tools),
        }
    }
}

/// A tally that is being kept.
#[derive(Debug, Default)]
pub(crate) struct TallyKeeper(Mutex<Tally>);

impl TallyKeeper {
    pub(crate) fn add(&self, call: &CallRecord) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let went_well = call.ending == CallEnding::Exited && call.exit_code == 0;
        tally.calls = tally.calls.saturating_add(1);
        tally.failed = tally.failed.saturating_add(u64::from(!went_well));
        tally.in_tools = tally.in_tools.saturating_add(Duration::from_millis(call.wall_ms));
    }

    pub(crate) fn now(&self) -> Tally {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
