//! The clock of a replay: what the log says.

use std::time::{Duration, Instant};

/// How far a log is.
#[derive(Debug)]
pub(super) struct Clock {
    /// The time of the first entry, for the client.
    pub(super) base: Instant,
    /// The same, as the log tells it.
    first: Option<Duration>,
    /// How far the client's clock is from its first entry. Never goes back.
    pub(super) now: Duration,
}

impl Clock {
    /// At the log's first entry, which is at `base`.
    pub(super) fn new(base: Instant) -> Self {
        Clock { base, first: None, now: Duration::ZERO }
    }

    /// How long after the first entry that time is.
    pub(super) fn offset(&mut self, time: Duration) -> Duration {
        let first = *self.first.get_or_insert(time);
        time.saturating_sub(first)
    }

    /// That long after the first entry.
    pub(super) fn at(&self, offset: Duration) -> Instant {
        // A log may claim any time.
        self.base.checked_add(offset).unwrap_or(self.base)
    }

    /// Now.
    pub(super) fn instant(&self) -> Instant {
        self.at(self.now)
    }
}
