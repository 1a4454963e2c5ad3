//! What the tools of a session came to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// A tally that is being kept.
#[derive(Debug, Default)]
pub(crate) struct TallyKeeper(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    tally: Tally,
    /// Calls before that do not count, in milliseconds since 1970.
    from: u64,
}

impl TallyKeeper {
    /// Counts what is asked for from now on: what came before was no agent's.
    pub(crate) fn begin(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let from = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        *self.kept() = Kept { tally: Tally::default(), from };
    }

    pub(crate) fn add(&self, call: &CallRecord) {
        let mut kept = self.kept();
        if call.time < kept.from {
            return;
        }
        let went_well = call.ending == CallEnding::Exited && call.exit_code == 0;
        let tally = &mut kept.tally;
        tally.calls = tally.calls.saturating_add(1);
        tally.failed = tally.failed.saturating_add(u64::from(!went_well));
        tally.in_tools = tally.in_tools.saturating_add(Duration::from_millis(call.wall_ms));
    }

    pub(crate) fn now(&self) -> Tally {
        self.kept().tally
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
