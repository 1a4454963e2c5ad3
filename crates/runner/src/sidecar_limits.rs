//! Limits that hold for all tools of a sidecar together: how often the kernel says they struck.
//!
//! A sidecar's limits are those of its cgroup (`cgroups(7)`), ours as well as the tools'. Its files are
//! found once; a look at them costs a read of each (a few microseconds), and nothing where no limit is set.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use aifo_wire::SidecarLimit;

/// The limits of this process's cgroup. One that is not set, or of which the kernel does not tell
/// here, never counts.
#[derive(Debug)]
pub(crate) struct SidecarLimits {
    memory: Option<Counter>,
    processes: Option<Counter>,
}

/// How often each limit has struck up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitCounts {
    memory: u64,
    processes: u64,
}

impl SidecarLimits {
    /// Finds the cgroup of this process.
    pub(crate) fn of_this_process() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (cgroups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        let counter = |limit| Counter::open(&cgroup_directory(&cgroups, &mounts, limit)?, limit);
        SidecarLimits { memory: counter(&MEMORY), processes: counter(&PROCESSES) }
    }

    /// What has been counted so far.
    pub(crate) fn counts(&self) -> LimitCounts {
        let count = |counter: &Option<Counter>| counter.as_ref().map_or(0, Counter::read);
        LimitCounts { memory: count(&self.memory), processes: count(&self.processes) }
    }

    /// The limit that has struck since. Of both, the one that kills.
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

/// What the kernel counts of one limit, and where.
struct Limit {
    controller: &'static str,
    v1: EventFiles,
    v2: EventFiles,
}

struct EventFiles {
    limit: &'static str,
    events: &'static str,
    /// The line of `events` that counts.
    key: &'static str,
}

const MEMORY: Limit = Limit {
    controller: "memory",
    v1: EventFiles {
        limit: "memory.limit_in_bytes",
        events: "memory.oom_control",
        key: "oom_kill",
    },
    v2: EventFiles { limit: "memory.max", events: "memory.events", key: "oom_kill" },
};

const PROCESSES: Limit = Limit {
    controller: "pids",
    v1: EventFiles { limit: "pids.max", events: "pids.events", key: "max" },
    v2: EventFiles { limit: "pids.max", events: "pids.events", key: "max" },
};

/// A number that the kernel keeps in a line of a file.
#[derive(Debug)]
struct Counter {
    events: File,
    key: &'static str,
}

impl Counter {
    fn open((cgroup_directory, version): &(PathBuf, CgroupVersion), limit: &Limit) -> Option<Self> {
        let files = match version {
            CgroupVersion::V1 => &limit.v1,
            CgroupVersion::V2 => &limit.v2,
        };
        // Without a limit of the sidecar's own, it was the machine that had no more.
        let limit = std::fs::read_to_string(cgroup_directory.join(files.limit)).ok()?;
        is_set(&limit).then_some(())?;
        let events = File::open(cgroup_directory.join(files.events)).ok()?;
        Some(Counter { events, key: files.key })
    }

    /// 0 if it cannot be read, and so never more than it was.
    fn read(&self) -> u64 {
        // Several times as much as any of these files has.
        let mut bytes = [0; 1024];
        let length = self.events.read_at(&mut bytes, 0).unwrap_or(0);
        count(bytes.get(..length).unwrap_or_default(), self.key).unwrap_or(0)
    }
}

/// Whether a limit is one: version 2 says `max` where there is none, version 1 a number of bytes that
/// no machine has.
fn is_set(limit: &str) -> bool {
    limit.trim_end().parse::<u64>().is_ok_and(|limit| limit < 1 << 62)
}

/// The number behind `key` in lines of `key number`.
fn count(events: &[u8], key: &str) -> Option<u64> {
    let mut lines = std::str::from_utf8(events).ok()?.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

/// A kind of cgroup hierarchy. Both may be there, each with some of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

/// Where the cgroup of a process is mounted, from its `/proc/PID/cgroup` and `/proc/PID/mountinfo`.
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
        let (place, what) = line.split_once(" - ")?;
        let mut what = what.split(' ');
        let is_it = match version {
            CgroupVersion::V1 => what.next()? == "cgroup" && controls(what.nth(1)?),
            CgroupVersion::V2 => what.next()? == "cgroup2",
        };
        let mut place = place.split(' ').skip(3).take_while(|_| is_it);
        let (root, point) = (place.next()?, place.next()?);
        // A mount may show only what is below our own cgroup, as in a container, or something else.
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
            // Another's cgroup is mounted there.
            (docker, docker_mounts, &PROCESSES, None),
            ("0::/\n", v2_mounts, &PROCESSES, Some(("/sys/fs/cgroup", CgroupVersion::V2))),
            ("0::/a b\n", v2_mounts, &MEMORY, Some(("/sys/fs/cgroup/a b", CgroupVersion::V2))),
            // Outside of what our namespace shows.
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
