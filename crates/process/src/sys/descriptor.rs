//! Comparing, inheriting and querying descriptors.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

/// Returns whether this number is an open descriptor.
pub(crate) fn is_open(number: RawFd) -> bool {
    // SAFETY: F_GETFD fails cleanly if the number is not open.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Takes ownership of an inherited descriptor: moves it above 2 and opens /dev/null in its place.
/// Must be called once per number, before any other use of it.
pub fn take_fd(number: RawFd) -> io::Result<OwnedFd> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: used during these calls only; fcntl fails cleanly if the number is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let raw = nix::fcntl::fcntl(inherited, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: fcntl has just created `raw`, so nothing else owns it; `number` is open, and dup2
    // closes and replaces it atomically.
    let owned = unsafe {
        let owned = OwnedFd::from_raw_fd(raw);
        Errno::result(libc::dup2(null.as_fd().as_raw_fd(), number))?;
        owned
    };
    Ok(owned)
}

/// Returns the number of unread bytes in a pipe, queried at either end (`FIONREAD`); 0 for any
/// other file.
pub fn bytes_in_pipe(pipe: BorrowedFd<'_>) -> usize {
    let mut count: c_int = 0;
    // SAFETY: the kernel writes one int to a live one.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if result == 0 { usize::try_from(count).unwrap_or(0) } else { 0 }
}
