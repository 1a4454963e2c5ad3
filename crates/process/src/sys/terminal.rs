//! Terminal attributes, window sizes and pseudo terminals.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::errno::Errno;

/// Returns the attributes of a terminal as the kernel has them, with unmodified speeds.
pub(crate) fn terminal_attributes(terminal: BorrowedFd<'_>) -> nix::Result<libc::termios> {
    let mut attributes = std::mem::MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the kernel writes its `struct termios`, a prefix of the C library's; all-zero is
    // valid for the rest.
    unsafe {
        let fd = terminal.as_raw_fd();
        Errno::result(libc::ioctl(fd, libc::TCGETS, attributes.as_mut_ptr()))?;
        Ok(attributes.assume_init())
    }
}

/// Sets the attributes of a terminal once all output was sent (TCSADRAIN).
pub(crate) fn set_terminal_attributes(
    terminal: BorrowedFd<'_>,
    attributes: &libc::termios,
) -> nix::Result<()> {
    let attributes = ptr::from_ref(attributes);
    // SAFETY: the kernel reads its `struct termios`, a prefix of the live value.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TCSETSW, attributes) };
    Errno::result(result).map(drop)
}

/// Sets the attributes of a terminal at once (TCSANOW).
pub(crate) fn set_terminal_attributes_now(
    terminal: BorrowedFd<'_>,
    attributes: &libc::termios,
) -> nix::Result<()> {
    let attributes = ptr::from_ref(attributes);
    // SAFETY: the kernel reads its `struct termios`, a prefix of the live value.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TCSETS, attributes) };
    Errno::result(result).map(drop)
}

/// Appends a byte to the input of the controlling terminal (TIOCSTI).
pub(crate) fn insert_input(terminal: BorrowedFd<'_>, byte: u8) -> nix::Result<()> {
    let byte = ptr::from_ref(&byte);
    // SAFETY: the kernel reads one live byte.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, byte) };
    Errno::result(result).map(drop)
}

pub(crate) fn window_size(terminal: BorrowedFd<'_>) -> nix::Result<libc::winsize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointer refers to a live value of the type that this request writes.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    Errno::result(result).map(|_| size)
}

pub(crate) fn set_window_size(terminal: BorrowedFd<'_>, size: &libc::winsize) -> nix::Result<()> {
    let size = ptr::from_ref(size);
    // SAFETY: the pointer refers to a live value of the type that this request reads.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, size) };
    Errno::result(result).map(drop)
}

/// Opens the slave of a pseudo terminal, close-on-exec, without making it a controlling terminal.
/// Uses no path, so it works whatever is mounted at /dev/pts.
pub(crate) fn pty_slave(master: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let unlocked: c_int = 0;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the first request reads one live integer, the second takes flags by value; its
    // non-negative result is a new descriptor.
    unsafe {
        let fd = master.as_raw_fd();
        Errno::result(libc::ioctl(fd, libc::TIOCSPTLCK, &raw const unlocked))?;
        let slave = Errno::result(libc::ioctl(fd, libc::TIOCGPTPEER, flags))?;
        Ok(OwnedFd::from_raw_fd(slave))
    }
}
