//! A replay's clock, which follows the log.

use std::time::{Duration, Instant};

/// The time of a replay.
#[derive(Debug)]
pub(super) struct Clock {
    /// The client's time of the first entry.
    pub(super) base: Instant,
    /// The log's time of the first entry.
    first: Option<Duration>,
    /// The client's time since the first entry. Monotonic.
    pub(super) now: Duration,
}

impl Clock {
    /// Starts at `base`, the time of the first entry.
    pub(super) fn new(base: Instant) -> Self {
        Clock { base, first: None, now: Duration::ZERO }
    }

    /// Returns a log time relative to the first entry.
    pub(super) fn offset(&mut self, time: Duration) -> Duration {
        let first = *self.first.get_or_insert(time);
        time.saturating_sub(first)
    }

    /// Returns the client's time at an offset.
    pub(super) fn at(&self, offset: Duration) -> Instant {
        // A log may contain any time.
        self.base.checked_add(offset).unwrap_or(self.base)
    }

    /// Returns the client's current time.
    pub(super) fn instant(&self) -> Instant {
        self.at(self.now)
    }
}
