//! Whether somebody still waits for a command (`spec/mailbox.md#liveness`).

use std::fs::{File, TryLockError};
use std::time::Instant;

use nix::sys::stat::fstat;

use crate::limits;

/// What its client's file shows at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The file has been removed.
    Absent,
    /// It is locked.
    Held,
    /// It is not; it was last touched then, in nanoseconds on whatever clock the client has.
    Touched(i128),
}

/// What has been seen of a client so far. The time is the caller's to tell.
#[derive(Clone, Copy, Debug)]
pub enum Liveness {
    /// It held a lock.
    Holds,
    /// It touches its file; this was seen for the first time then.
    Beats {
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
    pub fn new(now: Instant, beat: Beat) -> Self {
        match beat {
            Beat::Absent => Liveness::Gone,
            Beat::Held => Liveness::Holds,
            Beat::Touched(touched) => Liveness::Beats { touched, since: now },
        }
    }

    /// After another look: whether the client is gone. Once gone, it stays so.
    pub fn look(&mut self, now: Instant, beat: Beat) -> bool {
        *self = match (*self, beat) {
            (Liveness::Gone, _) | (_, Beat::Absent) => Liveness::Gone,
            (_, Beat::Held) => Liveness::Holds,
            (Liveness::Holds, Beat::Touched(_)) => Liveness::Gone,
            (Liveness::Beats { touched, since }, Beat::Touched(again)) if again == touched => {
                match now.saturating_duration_since(since) >= limits::SILENCE {
                    true => Liveness::Gone,
                    false => Liveness::Beats { touched, since },
                }
            }
            (Liveness::Beats { .. }, Beat::Touched(touched)) => {
                Liveness::Beats { touched, since: now }
            }
        };
        matches!(self, Liveness::Gone)
    }
}

/// A client's file, looked at through a descriptor: its name may be anything by now.
#[derive(Debug)]
pub struct Heart(File);

impl Heart {
    /// Over an open file.
    pub fn new(file: File) -> Self {
        Heart(file)
    }

    /// Looks. It holds the lock for a moment itself, shared, so that it never keeps another of its kind
    /// from seeing the same.
    pub fn beat(&self) -> Beat {
        let Ok(stat) = fstat(&self.0) else { return Beat::Absent };
        if stat.st_nlink == 0 {
            return Beat::Absent;
        }
        if matches!(self.0.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return Beat::Held;
        }
        // An error means that there was no lock, on a file system that has none.
        let _ = self.0.unlock();
        Beat::Touched(i128::from(stat.st_mtime) * NANOSECONDS + i128::from(stat.st_mtime_nsec))
    }
}

const NANOSECONDS: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(beats: &[(u64, Beat)], expected: &[bool]) {
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut liveness = Liveness::new(at(beats[0].0), beats[0].1);
        let looks = beats[1..].iter().map(|(secs, beat)| liveness.look(at(*secs), *beat));
        assert_eq!(looks.collect::<Vec<_>>(), expected, "{beats:?}");
    }

    #[test]
    fn a_client_is_gone_when_nothing_of_it_moves() {
        use Beat::{Absent, Held, Touched};
        check(&[(0, Held), (1, Held), (99, Held), (100, Touched(5))], &[false, false, true]);
        check(&[(0, Touched(5)), (9, Touched(5)), (10, Touched(5))], &[false, true]);
        check(
            &[(0, Touched(5)), (9, Touched(6)), (18, Touched(6)), (19, Touched(6))],
            &[false, false, true],
        );
        // A clock that is set back is a sign of life as well.
        check(&[(0, Touched(5)), (9, Touched(1)), (12, Touched(1))], &[false, false]);
        check(&[(0, Touched(5)), (5, Held), (60, Held), (61, Touched(9))], &[false, false, true]);
        check(&[(0, Held), (1, Absent), (2, Held)], &[true, true]);
        check(&[(0, Absent), (1, Touched(1))], &[true]);
    }
}
