//! CPU time from /proc: user plus system time, in ticks of 10 ms.
//!
//! A tick is long compared with a call, so only series of hundreds of calls are measured. The
//! kernel counts in nanoseconds and rounds only the output, so the sum is exact.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The CPU time of a process's reaped children and their reaped children.
pub(super) fn of_children(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    Ok(Stat::parse(&text).context("a process's stat")?.children)
}

/// The CPU time of a process, its live descendants, and their reaped children.
pub(super) fn of_tree(root: u32) -> Result<Duration> {
    Ok(tree(root)?.iter().map(|stat| stat.own + stat.children).sum())
}

/// The CPU time of a process alone.
pub(super) fn of_process(pid: u32) -> Result<Duration> {
    Ok(tree(pid)?.iter().filter(|stat| stat.pid == pid).map(|stat| stat.own).sum())
}

/// The CPU time of a process's live descendants, without their reaped children.
pub(super) fn of_descendants(root: u32) -> Result<Duration> {
    Ok(tree(root)?.iter().filter(|stat| stat.pid != root).map(|stat| stat.own).sum())
}

/// A process and its live descendants.
fn tree(root: u32) -> Result<Vec<Stat>> {
    let all = all_processes()?;
    let (mut left, mut tree) = (vec![root], Vec::new());
    while let Some(parent) = left.pop() {
        let stat = all.iter().find(|stat| stat.pid == parent).context("the tree has no root")?;
        tree.push(*stat);
        left.extend(all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid));
    }
    Ok(tree)
}

/// A process, see proc_pid_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    own: Duration,
    children: Duration,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may hold any character, even parentheses.
        let (head, fields) = text.rsplit_once(')')?;
        let (pid, _) = head.split_once(' ')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The first field after the name is number 3 of the manual page.
        let field = |number: usize| fields.get(number.checked_sub(3)?);
        let ticks = |number| field(number)?.parse::<u64>().ok();
        let spent = |user, system| {
            Some(Duration::from_millis(ticks(user)?.checked_add(ticks(system)?)?.checked_mul(10)?))
        };
        Some(Stat {
            pid: pid.parse().ok()?,
            parent: field(4)?.parse().ok()?,
            own: spent(14, 15)?,
            children: spent(16, 17)?,
        })
    }
}

/// Skips processes that exit meanwhile: their parent counts them.
fn all_processes() -> Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc").context("cannot list /proc")?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid| Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    Ok(pids.filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "7 (a) b (c) S 3 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 1 2\n";
        let millis = Duration::from_millis;
        let expected = Stat { pid: 7, parent: 3, own: millis(110), children: millis(150) };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("7 (a) S 3"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn cpu_time_of_children_counts_once_they_are_waited_for() {
        let us = std::process::id();
        let before = of_children(us).unwrap();
        // Enough work for many ticks on any machine.
        let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", work]).status().unwrap().success());
        assert!(of_children(us).unwrap() > before);
        assert!(of_tree(us).unwrap() >= of_children(us).unwrap());
        assert!(of_tree(us).unwrap() >= of_process(us).unwrap() + of_descendants(us).unwrap());
        assert!(of_tree(u32::MAX).is_err());
    }
}
