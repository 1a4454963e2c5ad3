//! Sending signals, and process attributes that concern signals and termination.

use aifo_types::Signal;
use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal;
use nix::unistd::{Pid, getppid};

use crate::signal_set::SignalSet;
use crate::sys::{self, Disposition};

/// Sends a signal of any number, including real-time signals, to a process group. Returns `false`
/// if the group has no process left. An invalid number has no effect.
pub fn signal_group_number(leader: Pid, number: u8) -> bool {
    sys::signal_group(leader, number) != Err(Errno::ESRCH)
}

/// Sends a signal to one process. The pid must not have been reused: it is a child that was not
/// reaped yet, or a descendant that was just seen.
pub fn signal_process(pid: Pid, signal: Signal) {
    if let Ok(number) = signal::Signal::try_from(i32::from(signal.number())) {
        // The process may have ended in the meantime.
        let _ = signal::kill(pid, number);
    }
}

/// Returns the signals that this process ignores, bit n - 1 for signal n: those inherited from its
/// parent, such as `nohup`, unless the process changed them. The standard library's start ignores
/// SIGPIPE; [`crate::entry`] does not.
pub fn ignored_signals() -> u64 {
    let all = SignalSet::all().iter();
    all.filter(|number| sys::is_ignored_number(*number)).collect::<SignalSet>().bits()
}

/// Returns whether this process ignores a signal.
pub fn is_ignored(signal: signal::Signal) -> bool {
    u8::try_from(signal as i32).is_ok_and(sys::is_ignored_number)
}

/// Resets every signal to its default action, except for SIGPIPE, which becomes ignored so that
/// writes fail with EPIPE, and unblocks all. The parent's ignored and blocked signals do not
/// affect this process and its tools.
pub fn reset_dispositions() -> nix::Result<()> {
    for number in SignalSet::all().iter() {
        sys::set_disposition(number, Disposition::Default);
    }
    sys::set_disposition(libc::SIGPIPE as u8, Disposition::Ignore);
    SignalSet::default().restore().map(drop)
}

/// Makes this process adopt orphaned descendants.
pub fn become_subreaper() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Makes the kernel send `signal` to this process when its parent ends. Fails with ESRCH if the
/// parent is no longer `parent`.
pub fn set_parent_death_signal(parent: Pid, signal: Signal) -> nix::Result<()> {
    let number = signal::Signal::try_from(i32::from(signal.number()))?;
    prctl::set_pdeathsig(number)?;
    if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH) }
}

/// Prevents unprivileged processes, including those of the same user, from tracing this process,
/// reading its memory or taking its descriptors, and disables core dumps. Lasts until execve.
/// Afterwards most of `/proc/self` belongs to root.
pub fn forbid_tracing() -> nix::Result<()> {
    prctl::set_dumpable(false)
}

/// Ends this process by a signal, without a core dump. Returns only if the signal's default action
/// does not end a process.
pub fn die_by_signal(number: u8) {
    let mut only = SignalSet::default();
    only.insert(number);
    // None of these calls fails for a valid signal.
    let _ = sys::prlimit(libc::RLIMIT_CORE as u8, Some(&libc::rlimit { rlim_cur: 0, rlim_max: 0 }));
    let _ = forbid_tracing();
    sys::set_disposition(number, Disposition::Default);
    let _ = only.unblock();
    let _ = sys::raise(number);
}
