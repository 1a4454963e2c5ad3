//! Sending, masking and reading signals.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::kernel::Fd;
use super::raw;

/// Opens a pidfd, which refers to one process even when its pid is reused.
pub(crate) fn pidfd_open(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: a system call on two integers; a non-negative result is a new descriptor.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0);
        Errno::result(fd).map(|fd| OwnedFd::from_raw_fd(fd as RawFd))
    }
}

pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: u8) -> nix::Result<()> {
    // SAFETY: a system call on integers and a null siginfo, which selects the default.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            c_int::from(signal),
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    Errno::result(result).map(drop)
}

/// The first part of the kernel's `struct pidfd_info` (`linux/pidfd.h`), its first published version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    /// The fields that are asked for, then those that are filled in.
    mask: u64,
    other: [u32; 13],
    exit_code: c_int,
}

/// `PIDFD_GET_INFO`: `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;
/// `PIDFD_INFO_EXIT`
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// Returns the wait status of a process that has been reaped, also by another process. `None` before Linux
/// 6.15, before it is reaped, or if the kernel does not show it to this process.
pub(crate) fn pidfd_wait_status(pidfd: BorrowedFd<'_>) -> Option<c_int> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the kernel writes at most the size that the number of the request has, which is that of the struct.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

pub(crate) fn signal_group(leader: Pid, signal: u8) -> nix::Result<()> {
    // SAFETY: a system call on two integers.
    Errno::result(unsafe { libc::killpg(leader.as_raw(), signal.into()) }).map(drop)
}

/// Sends a signal to this thread, including those that the C library reserves.
pub(crate) fn raise(signal: u8) -> nix::Result<()> {
    // SAFETY: system calls on integers.
    let result = unsafe {
        let thread = libc::syscall(libc::SYS_gettid);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, c_int::from(signal))
    };
    Errno::result(result).map(drop)
}

/// The action for a signal without a handler.
#[derive(Clone, Copy)]
pub(crate) enum Disposition {
    Default,
    Ignore,
}

/// The kernel's `struct sigaction`. The C library's function rejects its two reserved signals.
#[repr(C)]
pub(super) struct KernelSigaction {
    handler: libc::sighandler_t,
    /// Flags, restorer and mask, which have no effect without a handler.
    rest: [usize; 3],
}

impl KernelSigaction {
    /// Takes `SIG_DFL` or `SIG_IGN`.
    pub(super) fn new(handler: libc::sighandler_t) -> Self {
        KernelSigaction { handler, rest: [0; 3] }
    }
}

/// Sets the disposition of a signal. KILL, STOP and invalid numbers are ignored.
pub(crate) fn set_disposition(signal: u8, disposition: Disposition) {
    let handler = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignore => libc::SIG_IGN,
    };
    let sigaction = KernelSigaction::new(handler);
    let none = ptr::null_mut::<KernelSigaction>();
    // SAFETY: `sigaction` is live, has the kernel's size, and installs no handler.
    unsafe {
        let signal = c_int::from(signal);
        libc::syscall(libc::SYS_rt_sigaction, signal, &raw const sigaction, none, size_of::<u64>());
    }
}

/// Returns the signals that run a handler; bit n - 1 is signal n. Without the standard library's start there are none: this
/// crate installs no handler.
pub(crate) fn handled_signals() -> u64 {
    if !HAS_STANDARD_START.load(Ordering::Relaxed) {
        return 0;
    }
    let mut handled = 0;
    for signal in 1..=64 {
        if !matches!(handler(signal), libc::SIG_DFL | libc::SIG_IGN) {
            handled |= 1 << (signal - 1);
        }
    }
    handled
}

/// True if the standard library, or a library after it, may have installed handlers.
pub(crate) static HAS_STANDARD_START: AtomicBool = AtomicBool::new(true);

pub(crate) fn is_ignored_number(signal: u8) -> bool {
    handler(signal) == libc::SIG_IGN
}

/// Returns the handler of a signal, or the number of its disposition.
fn handler(signal: u8) -> libc::sighandler_t {
    let mut sigaction = KernelSigaction::new(libc::SIG_DFL);
    let args = [signal.into(), 0, &raw mut sigaction as usize, size_of::<u64>(), 0];
    // SAFETY: a null new action only queries; `sigaction` is live and has the kernel's size.
    let _ = unsafe { raw::syscall(libc::SYS_rt_sigaction, args) };
    sigaction.handler
}

/// How to apply a set to the thread's signal mask.
#[derive(Clone, Copy)]
pub(crate) enum MaskOperation {
    Block = libc::SIG_BLOCK as isize,
    Unblock = libc::SIG_UNBLOCK as isize,
    Set = libc::SIG_SETMASK as isize,
}

/// Changes the thread's signal mask and returns the previous one. Bit n - 1 is signal n.
pub(crate) fn change_mask(how: MaskOperation, set: u64) -> nix::Result<u64> {
    let mut before = 0u64;
    let (new, old) = (&raw const set as usize, &raw mut before as usize);
    let args = [how as usize, new, old, size_of::<u64>(), 0];
    // SAFETY: both pointers refer to live sets of the size passed.
    unsafe { raw::syscall(libc::SYS_rt_sigprocmask, args) }.map(|_| before)
}

/// Has the command process unblock all signals before it executes the program.
pub(crate) fn unblocked(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and execve only a system call is made, on a live set.
    unsafe { command.pre_exec(|| Ok(change_mask(MaskOperation::Set, 0).map(drop)?)) }
}

/// Opens a signalfd for a set of blocked signals, close-on-exec and non-blocking.
pub(crate) fn signalfd(set: u64) -> nix::Result<Fd> {
    let flags = (libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as usize;
    let args = [usize::MAX, &raw const set as usize, size_of::<u64>(), flags, 0];
    // SAFETY: the pointer refers to a live set of the size passed; a result that is not an error is
    // a new descriptor.
    unsafe {
        let fd = raw::syscall(libc::SYS_signalfd4, args)?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_recognized() {
        // The standard library handles SIGSEGV, to report stack overflows.
        assert_ne!(handled_signals() & 1 << 10, 0);
        assert_eq!(handled_signals() & 1 << 14, 0);
    }
}
