//! Resource limits and nice value of this process.

use std::io;
use std::sync::OnceLock;

use nix::libc;

use crate::sys;

/// A limit on one resource (`getrlimit(2)`), in that resource's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The Linux number of the resource: `RLIMIT_NOFILE` is 7.
    pub resource: u8,
    /// The limit in force; `u64::MAX` means unlimited.
    pub soft: u64,
    /// The upper bound of the soft limit; `u64::MAX` means unlimited.
    pub hard: u64,
}

/// Returns the limits of this process, ordered by resource number.
pub fn current_limits() -> Vec<ResourceLimit> {
    (0..RESOURCE_COUNT).filter_map(|resource| current(resource).ok()).collect()
}

/// The limit on open files of this process at its start.
static INHERITED_OPEN_FILES: OnceLock<ResourceLimit> = OnceLock::new();

/// Raises the soft limit on open files to the hard one, and returns the limit before the first call, which
/// tools inherit.
pub fn raise_open_files() -> io::Result<ResourceLimit> {
    let limit = current(libc::RLIMIT_NOFILE as u8)?;
    let inherited = INHERITED_OPEN_FILES.get_or_init(|| limit);
    if limit.soft < limit.hard {
        set_soft(&limit, limit.hard)?;
    }
    Ok(*inherited)
}

/// Runs a function that spawns a process, which inherits the limit on open files that this process had
/// before [`raise_open_files`]. In the meantime this process has that limit as well.
pub fn with_inherited_open_files<T>(spawn: impl FnOnce() -> T) -> T {
    let raised = current(libc::RLIMIT_NOFILE as u8).ok().zip(INHERITED_OPEN_FILES.get());
    let Some((raised, inherited)) = raised.filter(|(raised, it)| it.soft < raised.soft) else {
        return spawn();
    };
    // Within the hard limit, which does not change.
    let _ = set_soft(&raised, inherited.soft);
    let spawned = spawn();
    let _ = set_soft(&raised, raised.soft);
    spawned
}

fn set_soft(limit: &ResourceLimit, soft: u64) -> io::Result<()> {
    let new = libc::rlimit { rlim_cur: soft, rlim_max: limit.hard };
    sys::prlimit(limit.resource, Some(&new))?;
    Ok(())
}

/// Returns the nice value of this process, from -20 to 19.
pub fn nice() -> i8 {
    sys::kernel::nice()
}

fn current(resource: u8) -> nix::Result<ResourceLimit> {
    let limit = sys::prlimit(resource, None)?;
    Ok(ResourceLimit { resource, soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Number of resources in Linux (`RLIM_NLIMITS`).
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
