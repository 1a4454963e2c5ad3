//! Finding and ending descendants.

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
/// The process must be a subreaper or PID 1, so that it adopts orphaned descendants. No other code
/// of the process may reap any more.
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
        // A killed process needs a moment to end, or longer in an uninterruptible system call.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns every process below `root`, by the current parents.
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

/// Returns every pid that /proc lists.
pub(crate) fn all_processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// Returns the parent of a process; `None` if it has ended.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    stat(pid)?.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}

/// Returns whether a process is in the middle of an execve: it has memory, but no place for its
/// environment yet. A zombie and a thread of the kernel have no memory and never get any.
pub(crate) fn is_in_execve(pid: Pid) -> bool {
    /// The flag `PF_KTHREAD` of `include/linux/sched.h`.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let Some(stat) = stat(pid) else { return false };
    let field = |index| stat.split_whitespace().nth(index).unwrap_or_default();
    let number = |index| field(index).parse::<u64>().unwrap_or_default();
    // State, flags, and env_end, as proc_pid_stat(5) counts them, less 3.
    !matches!(field(0), "Z" | "X") && number(6) & KERNEL_THREAD == 0 && number(48) == 0
}

/// Returns the fields of `/proc/PID/stat` behind the command's name; the process state is the first.
fn stat(pid: Pid) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses; the fields behind the last one do not.
    Some(stat.rsplit_once(')')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_from_proc() {
        assert_eq!(parent_of(getpid()), Some(nix::unistd::getppid()));
        assert_eq!(parent_of(Pid::from_raw(i32::MAX)), None);
    }

    #[test]
    fn zombies_and_processes_without_an_environment_are_in_no_execve() {
        let _guard = crate::reaper::lock_children();
        let mut child =
            std::process::Command::new("sleep").arg("1000").env_clear().spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        // The spawn returned, so the execve is done.
        assert!(!is_in_execve(pid) && !is_in_execve(getpid()));
        child.kill().unwrap();
        let is_zombie = || stat(pid).is_some_and(|stat| stat.trim_start().starts_with('Z'));
        while !is_zombie() {
            std::thread::yield_now();
        }
        assert!(!is_in_execve(pid));
        child.wait().unwrap();
        assert!(!is_in_execve(Pid::from_raw(i32::MAX)));
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
