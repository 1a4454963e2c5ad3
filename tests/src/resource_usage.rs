//! Resource usage of a session, to detect leaks.

use crate::{Session, fd_count, status_kib};

/// The usage of proxy, guards and runners, in the same order.
#[derive(Debug)]
pub struct ResourceUsage {
    /// Open descriptors of each process.
    pub fds: Vec<usize>,
    /// The session's processes, without the proxy.
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
