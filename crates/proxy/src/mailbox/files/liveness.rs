//! Client liveness (`spec/mailbox.md#liveness`).

use std::fs::{File, TryLockError};
use std::time::Instant;

use nix::sys::stat::fstat;

use crate::mailbox::files::limits;

/// The state of a client's `.alive` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heartbeat {
    /// The file has been removed.
    Removed,
    /// The file is locked.
    Locked,
    /// The file is not locked. Holds its modification time in nanoseconds, by the client's clock.
    Touched(i128),
}

/// Liveness of a client. The caller passes the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Liveness {
    /// The client holds the lock.
    Locked,
    /// The client touches its file.
    Touched {
        /// The last modification time.
        touched: i128,
        /// When that time was first seen.
        since: Instant,
    },
    /// The client is lost. This state is final.
    Gone,
}

impl Liveness {
    /// Creates the state from a first observation.
    pub(crate) fn new(now: Instant, heartbeat: Heartbeat) -> Self {
        match heartbeat {
            Heartbeat::Removed => Liveness::Gone,
            Heartbeat::Locked => Liveness::Locked,
            Heartbeat::Touched(touched) => Liveness::Touched { touched, since: now },
        }
    }

    /// Updates the state with an observation. Returns whether the client is lost.
    pub(crate) fn update(&mut self, now: Instant, heartbeat: Heartbeat) -> bool {
        *self = match (*self, heartbeat) {
            (Liveness::Gone, _) | (_, Heartbeat::Removed) => Liveness::Gone,
            (_, Heartbeat::Locked) => Liveness::Locked,
            (Liveness::Locked, Heartbeat::Touched(_)) => Liveness::Gone,
            (Liveness::Touched { touched, since }, Heartbeat::Touched(again))
                if again == touched =>
            {
                match now.saturating_duration_since(since) >= limits::LIVENESS_TIMEOUT {
                    true => Liveness::Gone,
                    false => Liveness::Touched { touched, since },
                }
            }
            (Liveness::Touched { .. }, Heartbeat::Touched(touched)) => {
                Liveness::Touched { touched, since: now }
            }
        };
        matches!(self, Liveness::Gone)
    }
}

/// An open `.alive` file. The descriptor keeps the file, whatever happens to its name.
#[derive(Debug)]
pub(crate) struct HeartbeatFile(File);

impl HeartbeatFile {
    /// Wraps an open file.
    pub(crate) fn new(file: File) -> Self {
        HeartbeatFile(file)
    }

    /// Reads the file's state. Tests the lock by taking it shared for a moment, so that several
    /// tests do not see each other.
    pub(crate) fn read(&self) -> Heartbeat {
        let Ok(stat) = fstat(&self.0) else { return Heartbeat::Removed };
        if stat.st_nlink == 0 {
            return Heartbeat::Removed;
        }
        if matches!(self.0.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return Heartbeat::Locked;
        }
        // An error means that the file system has no locks.
        let _ = self.0.unlock();
        Heartbeat::Touched(i128::from(stat.st_mtime) * NANOSECONDS + i128::from(stat.st_mtime_nsec))
    }
}

const NANOSECONDS: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(observations: &[(u64, Heartbeat)], expected: &[bool]) {
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut liveness = Liveness::new(at(observations[0].0), observations[0].1);
        let looks = observations[1..]
            .iter()
            .map(|(secs, heartbeat)| liveness.update(at(*secs), *heartbeat));
        assert_eq!(looks.collect::<Vec<_>>(), expected, "{observations:?}");
    }

    #[test]
    fn a_client_without_changes_is_gone() {
        use Heartbeat::{Locked, Removed, Touched};
        check(&[(0, Locked), (1, Locked), (99, Locked), (100, Touched(5))], &[false, false, true]);
        check(&[(0, Touched(5)), (9, Touched(5)), (10, Touched(5))], &[false, true]);
        check(
            &[(0, Touched(5)), (9, Touched(6)), (18, Touched(6)), (19, Touched(6))],
            &[false, false, true],
        );
        // A changed time is a sign of life even if it is earlier.
        check(&[(0, Touched(5)), (9, Touched(1)), (12, Touched(1))], &[false, false]);
        check(
            &[(0, Touched(5)), (5, Locked), (60, Locked), (61, Touched(9))],
            &[false, false, true],
        );
        check(&[(0, Locked), (1, Removed), (2, Locked)], &[true, true]);
        check(&[(0, Removed), (1, Touched(1))], &[true]);
    }
}
