//! How often the limits of a sidecar were hit.
//!
//! A sidecar's limits are those of its cgroup (cgroups(7)), which contains the runner and all
//! tools. The files are located once. Reading the counts costs a few microseconds, and nothing if
//! no limit is set.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use aifo_wire::SidecarLimit;

/// The limits of this process's cgroup. A limit that is not set or cannot be read is never hit.
#[derive(Debug)]
pub(crate) struct SidecarLimits {
    memory: Option<Counter>,
    processes: Option<Counter>,
}

/// How often each limit was hit so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitCounts {
    memory: u64,
    processes: u64,
}

impl SidecarLimits {
    pub(crate) fn of_this_process() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (cgroups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        let counter = |limit| Counter::open(&cgroup_directory(&cgroups, &mounts, limit)?, limit);
        SidecarLimits { memory: counter(&MEMORY), processes: counter(&PROCESSES) }
    }

    pub(crate) fn counts(&self) -> LimitCounts {
        let count = |counter: &Option<Counter>| counter.as_ref().map_or(0, Counter::read);
        LimitCounts { memory: count(&self.memory), processes: count(&self.processes) }
    }

    /// Returns the limit that was hit since `before`. Of both, memory.
    pub(crate) fn hit_since(&self, before: LimitCounts) -> Option<SidecarLimit> {
        let now = self.counts();
        if now.memory > before.memory {
            Some(SidecarLimit::Memory)
        } else if now.processes > before.processes {
            Some(SidecarLimit::Processes)
        } else {
            None
        }
    }
}

struct Limit {
    controller: &'static str,
    v1: LimitFiles,
    v2: LimitFiles,
}

struct LimitFiles {
    limit: &'static str,
    events: &'static str,
    /// The line of `events` with the count.
    key: &'static str,
}

const MEMORY: Limit = Limit {
    controller: "memory",
    v1: LimitFiles {
        limit: "memory.limit_in_bytes",
        events: "memory.oom_control",
        key: "oom_kill",
    },
    v2: LimitFiles { limit: "memory.max", events: "memory.events", key: "oom_kill" },
};

const PROCESSES: Limit = Limit {
    controller: "pids",
    v1: LimitFiles { limit: "pids.max", events: "pids.events", key: "max" },
    v2: LimitFiles { limit: "pids.max", events: "pids.events", key: "max" },
};

#[derive(Debug)]
struct Counter {
    events: File,
    key: &'static str,
}

impl Counter {
    fn open((directory, version): &(PathBuf, CgroupVersion), limit: &Limit) -> Option<Self> {
        let files = match version {
            CgroupVersion::V1 => &limit.v1,
            CgroupVersion::V2 => &limit.v2,
        };
        // Without a limit on this cgroup, an OOM kill concerns the machine.
        let limit = std::fs::read_to_string(directory.join(files.limit)).ok()?;
        is_set(&limit).then_some(())?;
        let events = File::open(directory.join(files.events)).ok()?;
        Some(Counter { events, key: files.key })
    }

    /// Returns the count, or 0 if it cannot be read.
    fn read(&self) -> u64 {
        let mut bytes = [0; 1024];
        let length = self.events.read_at(&mut bytes, 0).unwrap_or(0);
        count(bytes.get(..length).unwrap_or_default(), self.key).unwrap_or(0)
    }
}

/// Returns whether a limit is set. Unset, it is `max` in version 2, and an enormous number in
/// version 1.
fn is_set(limit: &str) -> bool {
    limit.trim_end().parse::<u64>().is_ok_and(|limit| limit < 1 << 62)
}

/// Returns the number of the line `key number`.
fn count(events: &[u8], key: &str) -> Option<u64> {
    let mut lines = std::str::from_utf8(events).ok()?.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

/// A version of the cgroup hierarchy. Both may be mounted, each with some controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

/// Returns the directory of a process's cgroup, from its `/proc/PID/cgroup` and
/// `/proc/PID/mountinfo`.
fn cgroup_directory(
    cgroups: &str,
    mounts: &str,
    limit: &Limit,
) -> Option<(PathBuf, CgroupVersion)> {
    let controls = |list: &str| list.split(',').any(|name| name == limit.controller);
    let in_v1 = cgroups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':').filter(|(list, _)| controls(list)).map(|(_, path)| path)
    });
    let (path, version) = match in_v1 {
        Some(path) => (path, CgroupVersion::V1),
        None => (cgroups.lines().find_map(|line| line.strip_prefix("0::"))?, CgroupVersion::V2),
    };
    let found = mounts.lines().find_map(|line| {
        // `id parent device root point options .. - type source options`
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut filesystem = filesystem.split(' ');
        let matches = match version {
            CgroupVersion::V1 => filesystem.next()? == "cgroup" && controls(filesystem.nth(1)?),
            CgroupVersion::V2 => filesystem.next()? == "cgroup2",
        };
        let mut mount = mount.split(' ').skip(3).take_while(|_| matches);
        let (root, point) = (mount.next()?, mount.next()?);
        // A mount may show only a part of the hierarchy, as in a container; this cgroup may be
        // outside.
        let below = Path::new(path).strip_prefix(root).ok()?;
        let is_below = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_below.then(|| Path::new(point).join(below))
    })?;
    Some((found, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_cgroup_directory_is_found() {
        let v1 = "9:name=systemd:/\n8:pids:/\n4:memory:/user/a\n1:cpu,cpuacct:/\n0::/b\n";
        let docker = "4:memory:/docker/x\n8:pids:/docker/x\n0::/docker/x\n";
        let docker_mounts = "\
            83 79 0:32 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
            87 79 0:36 /docker/y /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n";
        let v2_mounts = "30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n";
        let rows = [
            (v1, V1_MOUNTS, &MEMORY, Some(("/sys/fs/cgroup/memory/user/a", CgroupVersion::V1))),
            (v1, V1_MOUNTS, &PROCESSES, Some(("/sys/fs/cgroup/pids", CgroupVersion::V1))),
            (
                "0::/b/c\n",
                V1_MOUNTS,
                &MEMORY,
                Some(("/sys/fs/cgroup/unified/b/c", CgroupVersion::V2)),
            ),
            (docker, docker_mounts, &MEMORY, Some(("/sys/fs/cgroup/memory", CgroupVersion::V1))),
            // Another cgroup is mounted there.
            (docker, docker_mounts, &PROCESSES, None),
            ("0::/\n", v2_mounts, &PROCESSES, Some(("/sys/fs/cgroup", CgroupVersion::V2))),
            ("0::/a b\n", v2_mounts, &MEMORY, Some(("/sys/fs/cgroup/a b", CgroupVersion::V2))),
            // Outside of the cgroup namespace.
            ("0::/../b\n", v2_mounts, &MEMORY, None),
            ("4:memory:/\n", v2_mounts, &MEMORY, None),
            ("", "", &MEMORY, None),
            ("nonsense\n0:\n", "nonsense\n - cgroup2\n1 2 3 - cgroup2 x y\n", &MEMORY, None),
        ];
        for (cgroups, mounts, limit, expected) in rows {
            let expected = expected.map(|(path, version)| (PathBuf::from(path), version));
            assert_eq!(cgroup_directory(cgroups, mounts, limit), expected, "{cgroups} {mounts}");
        }
    }

    #[test]
    fn counts_are_parsed() {
        let v1 = b"oom_kill_disable 0\nunder_oom 1\noom_kill 3\n";
        assert_eq!(count(v1, MEMORY.v1.key), Some(3));
        let v2 = b"low 0\nhigh 0\nmax 71\noom 5\noom_kill 4\noom_group_kill 0\n";
        assert_eq!(count(v2, MEMORY.v2.key), Some(4));
        assert_eq!(count(b"max 18446744073709551615\n", PROCESSES.v2.key), Some(u64::MAX));
        for none in [&b""[..], b"oom_kill", b"oom_kill \n", b"oom_kill -1\n", b"\xff 1\n"] {
            assert_eq!(count(none, "oom_kill"), None, "{}", none.escape_ascii());
        }
    }

    #[test]
    fn unlimited_values_are_recognized() {
        for limit in ["67108864\n", "0\n", "4611686018427387903"] {
            assert!(is_set(limit), "{limit}");
        }
        for none in ["max\n", "9223372036854771712\n", "-1\n", ""] {
            assert!(!is_set(none), "{none}");
        }
    }
}
