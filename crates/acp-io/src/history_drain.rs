//! Waits for the history of a loaded session: some agents still send it after they answered
//! `session/load` (`spec/acp-commands.md#resuming`).

use std::time::{Duration, Instant};

use aifo_acp::Limits;

/// Waits until no update has arrived for a while.
#[derive(Debug)]
pub struct HistoryDrain {
    session: String,
    idle: Duration,
    quiet: Instant,
    last: Instant,
}

impl HistoryDrain {
    /// Begins to wait for updates of a session.
    pub fn begin(session: String, limits: &Limits, now: Instant) -> Self {
        let (quiet, last) = (now + limits.drain_idle, now + limits.drain_total);
        HistoryDrain { session, idle: limits.drain_idle, quiet, last }
    }

    /// Restarts the idle time after an update.
    pub fn note_update(&mut self, now: Instant) {
        self.quiet = now + self.idle;
    }

    /// Waits for the idle or the total limit, then returns the session. Cancel-safe.
    pub async fn drained(&self) -> String {
        tokio::time::sleep_until(self.until().into()).await;
        self.session.clone()
    }

    fn until(&self) -> Instant {
        self.quiet.min(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_after_an_idle_time_or_the_total_limit() {
        let (limits, now) = (Limits::default(), Instant::now());
        let mut drain = HistoryDrain::begin("s".to_owned(), &limits, now);
        assert_eq!(drain.until(), now + limits.drain_idle);
        let later = now + limits.drain_idle / 2;
        drain.note_update(later);
        assert_eq!(drain.until(), later + limits.drain_idle);
        drain.note_update(now + limits.drain_total);
        assert_eq!(drain.until(), now + limits.drain_total);
    }
}
