//! Finding the processes of an exec by an environment variable.
//!
//! A process that calls setsid leaves its process group, and one that forks twice leaves its
//! process tree. All descendants inherit the environment, so a variable there identifies them.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aifo_types::{ExecId, Signal, env};
use nix::unistd::{Pid, getpid};

use crate::descendants::{all_processes, descendants_of, is_in_execve};
use crate::sys;

/// The variable that identifies the processes of one exec: `AIFO_EXEC=<exec id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecTag(String);

impl ExecTag {
    /// Returns the tag of an exec.
    pub fn new(id: &ExecId) -> Self {
        ExecTag(format!("{}={id}", env::EXEC_TAG))
    }

    /// Uses any other variable, as `NAME=value`, that only the processes in question carry.
    pub fn from_variable(variable: String) -> Self {
        ExecTag(variable)
    }

    /// The variable, as `NAME=value`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a process was started with the tag.
    pub fn is_set_in(&self, pid: Pid) -> bool {
        read_environ(pid)
            .is_some_and(|environ| environ.split(|byte| *byte == 0).any(|v| v == self.0.as_bytes()))
    }
}

/// Returns the environment that a process was started with; `None` if it has ended or belongs to
/// another user. Waits while an execve replaces it.
fn read_environ(pid: Pid) -> Option<Vec<u8>> {
    let read = || fs::read(format!("/proc/{pid}/environ")).ok();
    for _ in 0..ENVIRON_READS {
        let environ = read()?;
        if !environ.is_empty() {
            return Some(environ);
        }
        if !is_in_execve(pid) {
            break;
        }
        std::thread::sleep(ENVIRON_READ_INTERVAL);
    }
    // It was started with an empty environment, or the execve has ended since the last read.
    read()
}

/// How often the environment of a process in the middle of an execve is read. That takes a fraction of
/// a millisecond, or longer where the program's file is read from a disk.
const ENVIRON_READS: usize = 1000;
const ENVIRON_READ_INTERVAL: Duration = Duration::from_millis(1);

/// Returns the live descendants of this process that carry the tag.
///
/// Another session on this machine may use the same exec id, so other processes do not count. The
/// caller must be a subreaper or PID 1, so that no descendant leaves its tree. Walks /proc, which
/// takes some microseconds per process of the system.
pub fn tagged_processes(tag: &ExecTag) -> Vec<Pid> {
    descendants_of(getpid()).into_iter().filter(|pid| tag.is_set_in(*pid)).collect()
}

/// Sends a signal to every descendant with this tag and returns their number.
///
/// Each process is pinned by a pidfd before its tag is read again, so a reused pid is never
/// signalled.
pub fn signal_tagged(tag: &ExecTag, signal: Signal) -> usize {
    signal_each(tagged_processes(tag), tag, signal)
}

/// Ends every process of this machine with this tag, except for the calling one, wherever it is in
/// the process tree: sends TERM, and KILL after `grace`. Returns when none is left, or after 64
/// walks of /proc with KILL.
pub fn terminate_tagged(tag: &ExecTag, grace: Duration) {
    let tagged = || all_processes().filter(|pid| *pid != getpid() && tag.is_set_in(*pid));
    let deadline = Instant::now() + grace;
    signal_each(tagged().collect(), tag, Signal::Term);
    // A stopped process handles its TERM once it continues.
    signal_each(tagged().collect(), tag, Signal::Cont);
    while Instant::now() < deadline && tagged().next().is_some() {
        std::thread::sleep(POLL_INTERVAL);
    }
    for _ in 0..MAX_PROC_WALKS {
        if signal_each(tagged().collect(), tag, Signal::Kill) == 0 {
            return;
        }
        std::thread::sleep(ENVIRON_READ_INTERVAL);
    }
}

/// How often [`terminate_tagged`] checks whether the processes have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

fn signal_each(pids: Vec<Pid>, tag: &ExecTag, signal: Signal) -> usize {
    let mut count = 0;
    for pid in pids {
        let Ok(pidfd) = sys::pidfd_open(pid) else { continue };
        if !tag.is_set_in(pid) {
            continue;
        }
        count += 1;
        // The process may have ended in the meantime.
        let _ = sys::pidfd_send_signal(pidfd.as_fd(), signal.number());
    }
    count
}

/// Kills every descendant with this tag until two walks of /proc in a row find none, which a
/// process that keeps forking cannot outrun for long. Returns `false` after 64 walks: the remaining
/// processes cannot be killed yet, and the caller must try again later.
pub fn kill_tagged(tag: &ExecTag) -> bool {
    let mut empty_walks = 0;
    for _ in 0..MAX_PROC_WALKS {
        match signal_tagged(tag, Signal::Kill) {
            0 => empty_walks += 1,
            _ => empty_walks = 0,
        }
        if empty_walks == 2 {
            return true;
        }
    }
    false
}

/// Walks of /proc per call.
const MAX_PROC_WALKS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tagged_processes_of_any_session_end() {
        let id = ExecId::from_random(sys::random_bits().unwrap());
        let tag = ExecTag::from_variable(format!("AIFO_TEST_SESSION={id}"));
        let _guard = crate::reaper::lock_children();
        let start = |script: &str| {
            let mut shell = Command::new("setsid");
            shell.args(["sh", "-c", script]).env("AIFO_TEST_SESSION", id.as_str());
            shell.spawn().unwrap()
        };
        let mut on_term = start("sleep 1000; :");
        let mut ignoring_term = start("trap '' TERM; while :; do sleep 1; done");
        let mut stopped = start("kill -STOP $$; sleep 1000; :");
        let count = || all_processes().filter(|pid| tag.is_set_in(*pid)).count();
        while count() < 5 {
            std::thread::yield_now();
        }
        terminate_tagged(&tag, Duration::from_millis(200));
        for child in [&mut on_term, &mut ignoring_term, &mut stopped] {
            assert!(!child.wait().unwrap().success());
        }
        assert_eq!(count(), 0);
    }

    /// Kills the tagged processes when dropped, so that a failed test leaves none behind.
    struct Kill<'a>(&'a ExecTag);

    impl Drop for Kill<'_> {
        fn drop(&mut self) {
            kill_tagged(self.0);
        }
    }

    #[test]
    fn a_tag_survives_setsid_and_double_fork() {
        let id = ExecId::from_random(sys::random_bits().unwrap());
        let tag = ExecTag::new(&id);
        let longer_tag = ExecTag(format!("{}x", tag.as_str()));
        let script = "setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' & exit 0";
        let _guard = crate::reaper::lock_children();
        let _none_is_left = Kill(&tag);
        crate::become_subreaper().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env(env::EXEC_TAG, id.as_str());
        shell.status().unwrap();
        // The shell's child may not have called execve yet, but it exists and carries the tag.
        assert!(!tagged_processes(&tag).is_empty());
        assert!(tagged_processes(&longer_tag).is_empty(), "a tag matches a whole variable");
        assert!(kill_tagged(&tag));
        assert!(tagged_processes(&tag).is_empty());
    }
}
