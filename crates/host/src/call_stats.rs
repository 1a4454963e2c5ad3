//! Statistics of a session's calls.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_proxy::CallRecord;
use aifo_types::{CallEnding, agents_own_class};

/// Totals of a session's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// All calls but those that the agent made for itself.
    pub calls: u64,
    /// Calls that the agent made for itself; they are in no other number.
    pub plumbing: u64,
    /// Calls that were refused, or did not exit with 0.
    pub failed: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// The first different reasons of refusals, at most three.
    pub reasons: Vec<String>,
    /// Calls of which it is not known how they ended.
    pub unseen: u64,
    /// Sum of the tools' known wall times.
    pub tool_time: Duration,
}

/// A summary shows no more reasons.
const MAX_REASONS: usize = 3;

/// Counts calls as they end.
#[derive(Debug, Default)]
pub struct CallCounter(Mutex<CounterState>);

#[derive(Debug, Default)]
struct CounterState {
    stats: CallStats,
    /// Earlier calls do not count; in milliseconds since 1970.
    from: u64,
}

impl CallCounter {
    /// Restarts the count, which excludes calls before the agent's start.
    pub fn reset(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let from = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        *self.lock() = CounterState { stats: CallStats::default(), from };
    }

    /// Counts an ended call.
    pub fn add(&self, call: &CallRecord) {
        let mut state = self.lock();
        if call.time < state.from {
            return;
        }
        if agents_own_class(call.kind.as_deref(), call.ending, (&call.tool, &call.argv)).is_some() {
            state.stats.plumbing = state.stats.plumbing.saturating_add(1);
            return;
        }
        let has_failed = call.ending.has_failed(call.exit_code);
        let stats = &mut state.stats;
        stats.calls = stats.calls.saturating_add(1);
        stats.failed = stats.failed.saturating_add(u64::from(has_failed));
        if call.ending == CallEnding::Refused {
            stats.refused = stats.refused.saturating_add(1);
            let reason = call.reason.iter().filter(|reason| !stats.reasons.contains(reason));
            let room = MAX_REASONS.saturating_sub(stats.reasons.len());
            let new: Vec<String> = reason.take(room).cloned().collect();
            stats.reasons.extend(new);
        }
        stats.unseen = stats.unseen.saturating_add(u64::from(call.ending == CallEnding::InPlace));
        let wall = Duration::from_millis(call.wall_ms.unwrap_or_default());
        stats.tool_time = stats.tool_time.saturating_add(wall);
    }

    /// Returns the counts so far.
    pub fn snapshot(&self) -> CallStats {
        self.lock().stats.clone()
    }

    fn lock(&self) -> MutexGuard<'_, CounterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
