//! Whether somebody still waits for a command (`spec/mailbox.md#liveness`).

use std::fs::{File, TryLockError};
use std::time::Instant;

use nix::sys::stat::fstat;

use crate::limits;

/// What its client's file shows at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// The file has been removed.
    Removed,
    /// It is locked.
    Locked,
    /// It is not; it was last touched then, in nanoseconds on whatever clock the client has.
    Touched(i128),
}

/// What has been seen of a client so far. The time is the caller's to tell.
#[derive(Clone, Copy, Debug)]
pub enum Liveness {
    /// It held a lock.
    Locked,
    /// It touches its file; this was seen for the first time then.
    Touched {
        /// When it says it touched it.
        touched: i128,
        /// When we saw that.
        since: Instant,
    },
    /// It is gone.
    Gone,
}

impl Liveness {
    /// After a first look.
    pub fn new(now: Instant, heartbeat: Heartbeat) -> Self {
        match heartbeat {
            Heartbeat::Removed => Liveness::Gone,
            Heartbeat::Locked => Liveness::Locked,
            Heartbeat::Touched(touched) => Liveness::Touched { touched, since: now },
        }
    }

    /// After another look: whether the client is gone. Once gone, it stays so.
    pub fn update(&mut self, now: Instant, heartbeat: Heartbeat) -> bool {
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

/// A client's file, looked at through a descriptor: its name may be anything by now.
#[derive(Debug)]
pub struct HeartbeatFile(File);

impl HeartbeatFile {
    /// Over an open file.
    pub fn new(file: File) -> Self {
        HeartbeatFile(file)
    }

    /// Looks. It holds the lock for a moment itself, shared, so that it never keeps another of its kind
    /// from seeing the same.
    pub fn read(&self) -> Heartbeat {
        let Ok(stat) = fstat(&self.0) else { return Heartbeat::Removed };
        if stat.st_nlink == 0 {
            return Heartbeat::Removed;
        }
        if matches!(self.0.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return Heartbeat::Locked;
        }
        // An error means that there was no lock, on a file system that has none.
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
    fn a_client_is_gone_when_nothing_of_it_moves() {
        use Heartbeat::{Locked, Removed, Touched};
        check(&[(0, Locked), (1, Locked), (99, Locked), (100, Touched(5))], &[false, false, true]);
        check(&[(0, Touched(5)), (9, Touched(5)), (10, Touched(5))], &[false, true]);
        check(
            &[(0, Touched(5)), (9, Touched(6)), (18, Touched(6)), (19, Touched(6))],
            &[false, false, true],
        );
        // A clock that is set back is a sign of life as well.
        check(&[(0, Touched(5)), (9, Touched(1)), (12, Touched(1))], &[false, false]);
        check(
            &[(0, Touched(5)), (5, Locked), (60, Locked), (61, Touched(9))],
            &[false, false, true],
        );
        check(&[(0, Locked), (1, Removed), (2, Locked)], &[true, true]);
        check(&[(0, Removed), (1, Touched(1))], &[true]);
    }
}
