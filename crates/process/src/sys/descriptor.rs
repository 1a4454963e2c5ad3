//! Comparing, inheriting and querying descriptors.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// Whether two fds of ours name one open file description.
pub(crate) fn kcmp_files(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> nix::Result<bool> {
    const KCMP_FILE: c_int = 0;
    // SAFETY: system calls on integers.
    let order = unsafe {
        let (pid, a, b) = (libc::getpid(), a.as_raw_fd(), b.as_raw_fd());
        libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, a as libc::c_ulong, b as libc::c_ulong)
    };
    Errno::result(order).map(|order| order == 0)
}

/// Whether this number is open.
pub(crate) fn is_open(number: RawFd) -> bool {
    // SAFETY: only asks for a flag, and fails cleanly if it is not open.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Takes an fd that this process inherited under a known number, moves it above the standard ones
/// and puts /dev/null in its place. To be called once per number, first thing in `main`.
pub fn take_fd(number: RawFd) -> io::Result<OwnedFd> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: only used for the duration of these calls; fcntl fails cleanly if it is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let raw = nix::fcntl::fcntl(inherited, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: fcntl has just made `raw`, which nobody else knows; `number` is open, and dup2
    // closes and replaces it in one step.
    let owned = unsafe {
        let owned = OwnedFd::from_raw_fd(raw);
        Errno::result(libc::dup2(null.as_fd().as_raw_fd(), number))?;
        owned
    };
    Ok(owned)
}

/// How many bytes stand in a pipe, seen from either end (`FIONREAD`). 0 for what is no pipe.
pub fn bytes_in_pipe(pipe: BorrowedFd<'_>) -> usize {
    let mut count: c_int = 0;
    // SAFETY: the kernel writes one int to a live one.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if result == 0 { usize::try_from(count).unwrap_or(0) } else { 0 }
}
