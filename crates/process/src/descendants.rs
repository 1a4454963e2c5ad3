//! Ending everything below us.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use aifo_types::Signal;
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use crate::signal_process;

/// Kills and reaps every descendant of this process, and returns when none is left.
///
/// It needs to be a subreaper or PID 1: whoever loses its parent then becomes our child, so no
/// generation can slip away. To be called when nothing else of this process reaps any more.
pub fn end_descendants() {
    loop {
        for pid in descendants_of(getpid()) {
            signal_process(pid, Signal::Kill);
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::ECHILD) => return,
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        // A killed process needs a moment; one in an uninterruptible system call needs longer.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every process below `root`, by the chain of parents as it is now.
pub fn descendants_of(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for pid in all_processes() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut unvisited = vec![root];
    while let Some(pid) = unvisited.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend_from_slice(&below);
        unvisited.extend(below);
    }
    found
}

/// Every process id of the system, as /proc lists them.
pub(crate) fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

fn parent_of(pid: Pid) -> Option<Pid> {
    stat_field(pid, 1)?.parse().ok().map(Pid::from_raw)
}

/// Whether a process has ended and only waits to be reaped, or is gone altogether.
pub(crate) fn is_zombie(pid: Pid) -> bool {
    stat_field(pid, 0).is_none_or(|state| state == "Z" || state == "X")
}

/// A field of a process's stat, counted from its state.
fn stat_field(pid: Pid, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold spaces and parentheses; what follows its last one does not.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(index).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_from_proc() {
        assert_eq!(parent_of(getpid()), Some(nix::unistd::getppid()));
        assert_eq!(parent_of(Pid::from_raw(i32::MAX)), None);
        assert!(!is_zombie(getpid()) && is_zombie(Pid::from_raw(i32::MAX)));
    }

    #[test]
    fn grandchildren_are_descendants() {
        let _guard = crate::reaper::lock_children();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut child = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap());
        let found = descendants_of(getpid());
        assert!(found.contains(&grandchild), "{found:?} holds {grandchild}");
        signal_process(grandchild, Signal::Kill);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
