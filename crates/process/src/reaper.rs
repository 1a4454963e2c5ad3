//! What becomes of our children.

use std::time::Duration;

use aifo_types::Ending;
use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::sys;

/// Something that happened to a child of ours.
#[derive(Clone, Copy, Debug)]
pub enum ChildEvent {
    /// It has ended.
    Ended(Reaped),
    /// It was stopped and goes on when it gets CONT.
    Stopped {
        /// Its process id.
        pid: Pid,
        /// What stopped it: STOP, TSTP, TTIN or TTOU.
        signal: u8,
    },
}

/// A child that has ended, ours or one that was left to us as subreaper or PID 1.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// Its process id, which the kernel may use again from now on.
    pub pid: Pid,
    /// How it ended.
    pub ending: Ending,
    /// CPU time in user mode, of it and the children it waited for.
    pub user: Duration,
    /// CPU time in the kernel, of it and the children it waited for.
    pub system: Duration,
    /// The largest resident set among them, in KiB.
    pub max_rss_kib: u64,
}

/// What happened to one child, each thing once, or `None` when nothing else did. Never blocks.
///
/// A process that starts children calls this from one place only: it takes *any* child.
pub fn reap() -> Option<ChildEvent> {
    let (pid, status, usage) = sys::wait4_any().ok().flatten()?;
    // A status has eight bits, a signal seven.
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

/// Whether this process has a child, be it one that has ended and was not reaped.
pub fn has_children() -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, flags) != Err(Errno::ECHILD)
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// `reap` takes any child of this process, so unit tests that start one hold this meanwhile.
#[cfg(test)]
pub(crate) fn lock_children() -> std::sync::MutexGuard<'static, ()> {
    static CHILDREN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    CHILDREN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
