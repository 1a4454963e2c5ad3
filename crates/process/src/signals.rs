//! Signals, and what a process arranges about its own end.

use std::io;

use aifo_types::Signal;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{self, SigSet, SigmaskHow, sigprocmask};
use nix::unistd::{Pid, getppid};

use crate::spawn::OpenFilesLimit;
use crate::sys;

/// Sends a signal to a whole process group. `false` if no process of it is left.
pub fn signal_group(leader: Pid, signal: Signal) -> bool {
    let number = signal::Signal::try_from(i32::from(signal.number()));
    number.and_then(|number| signal::killpg(leader, number)) != Err(Errno::ESRCH)
}

/// Sends a signal to one process whose number cannot have been used again: a child of ours that was
/// not reaped yet, or one that was just seen below us.
pub fn signal_process(pid: Pid, signal: Signal) {
    if let Ok(number) = signal::Signal::try_from(i32::from(signal.number())) {
        // It may have ended by itself just now.
        let _ = signal::kill(pid, number);
    }
}

/// Gives every signal its default action, but SIGPIPE, which stays ignored, and unblocks all: what
/// our parent ignored or blocked is no business of ours or our tools.
pub fn reset_dispositions() -> nix::Result<()> {
    sys::default_dispositions();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Makes orphaned descendants our children, so that none escapes us.
pub fn become_subreaper() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Asks the kernel to send us `signal` when our parent ends. Fails with ESRCH if it has already,
/// that is when our parent is no longer `parent`.
pub fn die_with_parent(parent: Pid, signal: Signal) -> nix::Result<()> {
    let number = signal::Signal::try_from(i32::from(signal.number()))?;
    prctl::set_pdeathsig(number)?;
    if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH) }
}

/// Raises our soft limit on open files to the hard one, and returns what was in force, which is
/// what a tool is to get.
pub fn raise_open_files() -> io::Result<OpenFilesLimit> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(OpenFilesLimit { soft, hard })
}

/// Ends this process by `signal`, as if it had been killed by it. Returns only if the signal's
/// default action does not end a process.
pub fn die_of(signal: signal::Signal) {
    sys::default_disposition(signal);
    let mut only = SigSet::empty();
    only.add(signal);
    // Each of these can only fail for a signal that does not exist.
    let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&only), None);
    let _ = signal::raise(signal);
}
