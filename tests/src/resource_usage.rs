//! Resource usage of a session, to detect leaks.

use crate::{Session, eventually, fd_count, status_kib};

/// The usage of proxy, guards and runners, in the same order.
#[derive(Debug)]
pub struct ResourceUsage {
    /// Open descriptors of each process.
    pub fds: Vec<usize>,
    /// The session processes, without the proxy.
    pub processes: usize,
    /// Anonymous memory of each process, in KiB.
    pub anonymous_kib: Vec<u64>,
}

impl ResourceUsage {
    /// The current usage.
    #[track_caller]
    pub fn of(session: &Session) -> Self {
        let sidecars = session.sidecars().into_iter().flat_map(|s| [s.guard, s.runner]);
        let pids: Vec<i32> = [session.pid()].into_iter().chain(sidecars).collect();
        ResourceUsage {
            fds: pids.iter().map(|&pid| fd_count(pid)).collect(),
            processes: session.processes().len(),
            anonymous_kib: pids.iter().map(|&pid| status_kib(pid, "RssAnon")).collect(),
        }
    }

    /// True if no descriptor opened since `before` is still open. Descriptors that were open only
    /// briefly at `before`, while the session started, may be closed.
    pub fn has_no_more_fds_than(&self, before: &ResourceUsage) -> bool {
        self.fds.len() == before.fds.len()
            && self.fds.iter().zip(&before.fds).all(|(now, then)| now <= then)
    }

    /// Waits until no descriptor and no process has been gained since `before`, then checks memory.
    #[track_caller]
    pub fn check_no_gain(session: &Session, before: &ResourceUsage) {
        eventually("no fd and no process is gained", || {
            let now = ResourceUsage::of(session);
            now.processes <= before.processes && now.has_no_more_fds_than(before)
        });
        let after = ResourceUsage::of(session);
        for (after_kib, before_kib) in after.anonymous_kib.iter().zip(&before.anonymous_kib) {
            assert!(*after_kib <= before_kib + MAX_GAIN_KIB, "{before:?} became {after:?}");
        }
    }

    /// The maximum of each number.
    pub fn most(self, other: Self) -> Self {
        let most_kib = |(ours, theirs): (u64, u64)| ours.max(theirs);
        let most_fds = |(ours, theirs): (usize, usize)| ours.max(theirs);
        let kib = self.anonymous_kib.into_iter().zip(other.anonymous_kib);
        ResourceUsage {
            fds: self.fds.into_iter().zip(other.fds).map(most_fds).collect(),
            processes: self.processes.max(other.processes),
            anonymous_kib: kib.map(most_kib).collect(),
        }
    }
}

/// The memory of a process that the allocator may keep.
const MAX_GAIN_KIB: u64 = 1024;

/// A number from the environment.
#[track_caller]
pub fn number_from(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
