//! Reaping children.

use std::time::Duration;

use aifo_types::Ending;
use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::sys;

/// A state change of a child.
#[derive(Clone, Copy, Debug)]
pub enum ChildEvent {
    /// The child has ended.
    Ended(Reaped),
    /// The child was stopped.
    Stopped {
        /// Its process id.
        pid: Pid,
        /// The signal that stopped it: STOP, TSTP, TTIN or TTOU.
        signal: u8,
    },
}

/// A child that has ended. It may be an orphan that this process adopted as subreaper or PID 1.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// Its process id, which the kernel may reuse from now on.
    pub pid: Pid,
    /// How it ended.
    pub ending: Ending,
    /// CPU time in user mode, including the children it waited for.
    pub user: Duration,
    /// CPU time in the kernel, including the children it waited for.
    pub system: Duration,
    /// The largest resident set among them, in KiB.
    pub max_rss_kib: u64,
}

/// Returns the next state change of any child, or `None`. Never blocks.
///
/// Must be called from one place of a process only, because it reaps *any* child.
pub fn reap() -> Option<ChildEvent> {
    let (pid, status, usage) = sys::wait4_any().ok().flatten()?;
    // An exit status has eight bits, a signal number seven.
    let byte = |number| u8::try_from(number).unwrap_or(u8::MAX);
    if libc::WIFSTOPPED(status) {
        return Some(ChildEvent::Stopped { pid, signal: byte(libc::WSTOPSIG(status)) });
    }
    let ending = if libc::WIFSIGNALED(status) {
        Ending::Signaled(byte(libc::WTERMSIG(status)))
    } else {
        Ending::Exited(byte(libc::WEXITSTATUS(status)))
    };
    Some(ChildEvent::Ended(Reaped {
        pid,
        ending,
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }))
}

/// Reaps the ended children of this thread. Never blocks.
///
/// A process that adopts orphans gets them as children of its first thread. If another thread starts all of
/// its own children, the first one reaps the orphans only.
pub fn reap_children_of_thread() {
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::__WNOTHREAD;
    while !matches!(waitpid(None, Some(flags)), Err(_) | Ok(WaitStatus::StillAlive)) {}
}

/// Returns whether this process has a child, including zombies.
pub fn has_children() -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, flags) != Err(Errno::ECHILD)
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// `reap` takes any child of the process, so unit tests that start one hold this lock.
#[cfg(test)]
pub(crate) fn lock_children() -> std::sync::MutexGuard<'static, ()> {
    static CHILDREN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    CHILDREN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
