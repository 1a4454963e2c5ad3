//! Finding every process of an exec.
//!
//! A process group loses whoever called setsid, a process tree loses whoever forked twice. The
//! environment a process was started with stays with all its descendants, so each exec's carries a
//! mark there.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aifo_types::{ExecId, Signal, env};
use nix::unistd::{Pid, getpid};

use crate::descendants::{all_processes, descendants_of, is_zombie};
use crate::sys;

/// The variable by which the processes of one exec are known: `AIFO_EXEC=<exec id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// The mark of the exec called `id`.
    pub fn of(id: &ExecId) -> Self {
        Mark(format!("{}={id}", env::EXEC_TAG))
    }

    /// Any variable, as `NAME=value`, that only the processes in question have.
    pub fn of_variable(variable: String) -> Self {
        Mark(variable)
    }

    /// The variable, as `NAME=value`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_on(&self, pid: Pid) -> bool {
        for _ in 0..READS {
            // A process that ended or belongs to somebody else shows no environment.
            let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { return false };
            if !environ.is_empty() {
                return environ.split(|byte| *byte == 0).any(|var| var == self.0.as_bytes());
            }
            // Nor does one in the middle of an exec, for a moment; a zombie never will again.
            if is_zombie(pid) {
                return false;
            }
            std::thread::sleep(BETWEEN_READS);
        }
        // Started with an empty environment, then.
        false
    }
}

/// How often an empty environment is read, in case its process is just being replaced by another:
/// that takes a fraction of a millisecond, but may be interrupted.
const READS: usize = 10;
const BETWEEN_READS: Duration = Duration::from_millis(1);

/// All live processes below us with this mark. Another session on this machine may use the same
/// exec id, so only what is below us counts: as a subreaper we lose none of ours. Walks /proc: some
/// microseconds per process of the system.
pub fn processes_marked(mark: &Mark) -> Vec<Pid> {
    descendants_of(getpid()).into_iter().filter(|pid| mark.is_on(*pid)).collect()
}

/// Sends a signal to every process with this mark; returns how many there were.
///
/// Each is pinned by a pidfd before its mark is read again, so a number that was reused meanwhile
/// is never hit.
pub fn signal_marked(mark: &Mark, signal: Signal) -> usize {
    signal_each(processes_marked(mark), mark, signal)
}

/// Ends every process of this machine that has this mark and may be signalled, wherever it is in the
/// process tree, except for the calling one: TERM first, and KILL for what is left after `patience`.
/// Returns when none is left, or [`sweep`] would give up.
pub fn end_everywhere(mark: &Mark, patience: Duration) {
    let marked = || all_processes().filter(|pid| *pid != getpid() && mark.is_on(*pid));
    let deadline = Instant::now() + patience;
    signal_each(marked().collect(), mark, Signal::Term);
    // A stopped process gets its TERM when it continues.
    signal_each(marked().collect(), mark, Signal::Cont);
    while Instant::now() < deadline && marked().next().is_some() {
        std::thread::sleep(BETWEEN_LOOKS);
    }
    for _ in 0..MAX_WALKS {
        if signal_each(marked().collect(), mark, Signal::Kill) == 0 {
            return;
        }
        std::thread::sleep(BETWEEN_READS);
    }
}

/// How often is looked whether processes have ended that were asked to.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

fn signal_each(pids: Vec<Pid>, mark: &Mark, signal: Signal) -> usize {
    let mut count = 0;
    for pid in pids {
        let Ok(pidfd) = sys::pidfd_open(pid) else { continue };
        if !mark.is_on(pid) {
            continue;
        }
        count += 1;
        // It may have ended by itself just now.
        let _ = sys::pidfd_send_signal(pidfd.as_fd(), signal.number());
    }
    count
}

/// Kills every process with this mark until two walks in a row find none, which a process that
/// keeps forking cannot outrun for long. Returns whether that was reached; after 64 walks the
/// rest is somebody who cannot die yet, and the caller tries again later.
pub fn sweep(mark: &Mark) -> bool {
    let mut empty_walks = 0;
    for _ in 0..MAX_WALKS {
        match signal_marked(mark, Signal::Kill) {
            0 => empty_walks += 1,
            _ => empty_walks = 0,
        }
        if empty_walks == 2 {
            return true;
        }
    }
    false
}

/// Walks of /proc that one [`sweep`] makes at most.
const MAX_WALKS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn processes_end_wherever_they_are() {
        let id = ExecId::from_random(sys::random_bits().unwrap());
        let mark = Mark::of_variable(format!("AIFO_TEST_SESSION={id}"));
        let _guard = crate::reaper::lock_children();
        let start = |script: &str| {
            let mut shell = Command::new("setsid");
            shell.args(["sh", "-c", script]).env("AIFO_TEST_SESSION", id.as_str());
            shell.spawn().unwrap()
        };
        let mut willing = start("sleep 1000; :");
        let mut stubborn = start("trap '' TERM; while :; do sleep 1; done");
        let mut stopped = start("kill -STOP $$; sleep 1000; :");
        let count = || all_processes().filter(|pid| mark.is_on(*pid)).count();
        while count() < 5 {
            std::thread::yield_now();
        }
        end_everywhere(&mark, Duration::from_millis(200));
        for child in [&mut willing, &mut stubborn, &mut stopped] {
            assert!(!child.wait().unwrap().success());
        }
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_mark_survives_setsid_and_double_fork() {
        let id = ExecId::from_random(sys::random_bits().unwrap());
        let mark = Mark::of(&id);
        let longer = Mark(format!("{}x", mark.as_str()));
        let script = "setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' & exit 0";
        let _guard = crate::reaper::lock_children();
        crate::become_subreaper().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env(env::EXEC_TAG, id.as_str());
        shell.status().unwrap();
        // The shell's child may not have executed yet, but it is there and carries the mark.
        assert!(!processes_marked(&mark).is_empty());
        assert!(processes_marked(&longer).is_empty(), "a mark is a whole variable");
        assert!(sweep(&mark));
        assert!(processes_marked(&mark).is_empty());
    }
}
