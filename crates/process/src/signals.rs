//! Signals, and what a process arranges about its own end.

use aifo_types::Signal;
use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal;
use nix::unistd::{Pid, getppid};

use crate::signal_set::SignalSet;
use crate::sys::{self, Disposition};

/// Sends a signal of any number, real-time ones included, to a whole process group. `false` if no
/// process of it is left. A number that is no signal reaches nobody.
pub fn signal_group_number(leader: Pid, number: u8) -> bool {
    sys::signal_group(leader, number) != Err(Errno::ESRCH)
}

/// Sends a signal to one process whose number cannot have been used again: a child of ours that was
/// not reaped yet, or one that was just seen below us.
pub fn signal_process(pid: Pid, signal: Signal) {
    if let Ok(number) = signal::Signal::try_from(i32::from(signal.number())) {
        // It may have ended by itself just now.
        let _ = signal::kill(pid, number);
    }
}

/// The signals that this process ignores, bit n - 1 for signal n: those that it was started to
/// ignore, by `nohup` or a shell in the background, unless it has changed them since. The standard
/// library's start makes it ignore SIGPIPE; [`crate::entry`] does not.
pub fn ignored_signals() -> u64 {
    let mut ignored = SignalSet::default();
    for number in SignalSet::all().iter().filter(|number| sys::is_ignored_number(*number)) {
        ignored.insert(number);
    }
    ignored.bits()
}

/// Whether this process ignores a signal.
pub fn is_ignored(signal: signal::Signal) -> bool {
    u8::try_from(signal as i32).is_ok_and(sys::is_ignored_number)
}

/// Gives every signal its default action, but SIGPIPE, which stays ignored so that a write to a
/// peer that left is an error we see, and unblocks all: what our parent ignored or blocked is no
/// business of ours or our tools.
pub fn reset_dispositions() -> nix::Result<()> {
    for number in SignalSet::all().iter() {
        sys::set_disposition(number, Disposition::Default);
    }
    sys::set_disposition(libc::SIGPIPE as u8, Disposition::Ignore);
    SignalSet::default().restore().map(drop)
}

/// Makes orphaned descendants our children, so that none escapes us.
pub fn become_subreaper() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Asks the kernel to send us `signal` when our parent ends. Fails with ESRCH if it has already,
/// that is when our parent is no longer `parent`.
pub fn set_parent_death_signal(parent: Pid, signal: Signal) -> nix::Result<()> {
    let number = signal::Signal::try_from(i32::from(signal.number()))?;
    prctl::set_pdeathsig(number)?;
    if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH) }
}

/// Keeps every process without privileges, our own user's included, from tracing this one, reading
/// its memory or taking its fds, and the kernel from dumping it. It ends with the execution of
/// another program. Much of our /proc entry belongs to root from now on.
pub fn forbid_tracing() -> nix::Result<()> {
    prctl::set_dumpable(false)
}

/// Ends this process by the signal of this number, as if it had been killed by it, but leaves no
/// core: what is to be looked at is not in our memory. Returns only if the signal's default action
/// does not end a process.
pub fn die_by_signal(number: u8) {
    let mut only = SignalSet::default();
    only.insert(number);
    // None of these can fail for what is a signal.
    let _ = sys::prlimit(libc::RLIMIT_CORE as u8, Some(&libc::rlimit { rlim_cur: 0, rlim_max: 0 }));
    let _ = forbid_tracing();
    sys::set_disposition(number, Disposition::Default);
    let _ = only.unblock();
    let _ = sys::raise(number);
}
