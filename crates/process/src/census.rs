//! Finding every process of an exec.
//!
//! A process group loses whoever called setsid, a process tree loses whoever forked twice. The
//! environment a process was started with stays with all its descendants, so each exec's carries a
//! mark there.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

use aifo_types::{ExecId, Signal, env};
use nix::unistd::{Pid, getpid};

use crate::descendants::{descendants_of, is_zombie};
use crate::sys;

/// The variable by which the processes of one exec are known: `AIFO_EXEC=<exec id>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// The mark of the exec called `id`.
    pub fn of(id: &ExecId) -> Self {
        Mark(format!("{}={id}", env::EXEC_MARK))
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
    let mut count = 0;
    for pid in processes_marked(mark) {
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
    fn a_mark_survives_setsid_and_double_fork() {
        let id = ExecId::from_random(sys::random_bits().unwrap());
        let mark = Mark::of(&id);
        let longer = Mark(format!("{}x", mark.as_str()));
        let script = "setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' & exit 0";
        let _guard = crate::reaper::lock_children();
        crate::become_subreaper().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env(env::EXEC_MARK, id.as_str());
        shell.status().unwrap();
        // The shell's child may not have executed yet, but it is there and carries the mark.
        assert!(!processes_marked(&mark).is_empty());
        assert!(processes_marked(&longer).is_empty(), "a mark is a whole variable");
        assert!(sweep(&mark));
        assert!(processes_marked(&mark).is_empty());
    }
}
