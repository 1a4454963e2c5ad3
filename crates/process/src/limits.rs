//! What a process may use of the machine, and how much it gives way to others.

use std::io;

use nix::libc;

use crate::sys;

/// A limit on one resource (`getrlimit(2)`), in that resource's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Which one, by its Linux number: `RLIMIT_NOFILE` is 7.
    pub resource: u8,
    /// The limit in force; `u64::MAX` is none.
    pub soft: u64,
    /// How far it may be raised; `u64::MAX` is no bound.
    pub hard: u64,
}

/// The limits of this process, by their numbers.
pub fn current_limits() -> Vec<ResourceLimit> {
    (0..RESOURCE_COUNT).filter_map(|resource| current(resource).ok()).collect()
}

/// Raises our soft limit on open files to the hard one, and returns what was in force, which is
/// what a tool is to get.
pub fn raise_open_files() -> io::Result<ResourceLimit> {
    let limit = current(libc::RLIMIT_NOFILE as u8)?;
    let raised = libc::rlimit { rlim_cur: limit.hard, rlim_max: limit.hard };
    if limit.soft < limit.hard {
        sys::prlimit(limit.resource, Some(&raised))?;
    }
    Ok(limit)
}

/// The nice value of this process, from -20 to 19: the higher, the more it lets others go first.
pub fn nice() -> i8 {
    i8::try_from(sys::nice()).unwrap_or(0)
}

fn current(resource: u8) -> nix::Result<ResourceLimit> {
    let limit = sys::prlimit(resource, None)?;
    Ok(ResourceLimit { resource, soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// How many resources Linux knows (`RLIM_NLIMITS`).
const RESOURCE_COUNT: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_its_number() {
        let limits = current_limits();
        assert!(limits.iter().map(|limit| limit.resource).eq(0..16));
        assert!(limits.iter().all(|limit| limit.soft <= limit.hard), "{limits:?}");
        let shown = std::fs::read_to_string("/proc/self/limits").unwrap();
        let open_files = shown.lines().find(|line| line.starts_with("Max open files")).unwrap();
        assert!(open_files.contains(&limits[7].hard.to_string()), "{open_files}");
    }
}
