//! A session that has been loaded, until its history has come: some agents still tell it when they have
//! answered that it is loaded (`spec/acp-commands.md#resuming`).

use std::time::{Duration, Instant};

use aifo_acp::Limits;

/// Waits for nothing to come any more.
#[derive(Debug)]
pub(crate) struct Settling {
    session: String,
    idle: Duration,
    quiet: Instant,
    last: Instant,
}

impl Settling {
    pub(crate) fn begin(session: String, limits: &Limits, now: Instant) -> Self {
        let (quiet, last) = (now + limits.drain_idle, now + limits.drain_total);
        Settling { session, idle: limits.drain_idle, quiet, last }
    }

    /// Something has come.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.quiet = now + self.idle;
    }

    /// The session, when it has settled. Cancel-safe.
    pub(crate) async fn settled(&self) -> String {
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
    fn it_settles_when_nothing_has_come_for_a_moment_or_in_the_end() {
        let (limits, now) = (Limits::default(), Instant::now());
        let mut settling = Settling::begin("s".to_owned(), &limits, now);
        assert_eq!(settling.until(), now + limits.drain_idle);
        let later = now + limits.drain_idle / 2;
        settling.heard(later);
        assert_eq!(settling.until(), later + limits.drain_idle);
        settling.heard(now + limits.drain_total);
        assert_eq!(settling.until(), now + limits.drain_total);
    }
}
