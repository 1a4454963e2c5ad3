//! First steps of a program that starts by [`crate::entry`].

use std::fs::File;
use std::os::fd::IntoRawFd;
use std::panic::catch_unwind;
use std::process::exit;
use std::sync::atomic::Ordering;

use nix::libc;

use crate::sys::{self, Disposition};

/// Runs a program; a panic exits with 101.
#[doc(hidden)]
pub fn start(run: fn() -> !) -> ! {
    sys::c_library_has_started();
    sys::HAS_STANDARD_START.store(false, Ordering::Relaxed);
    let Err(_) = catch_unwind(run);
    exit(101)
}

/// Returns which of the descriptors 0, 1 and 2 were inherited closed, and opens /dev/null in their
/// place. Otherwise the next file this process opens would get such a number and receive output
/// meant for stderr. They are close-on-exec, so an executed program finds them closed again. Must
/// be called first.
pub fn closed_standard_fds() -> [bool; 3] {
    let closed = [0, 1, 2].map(|number| !sys::is_open(number));
    for _ in closed.iter().filter(|is_closed| **is_closed) {
        // open returns the lowest free number. Without /dev/null they stay closed.
        if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
            let _ = null.into_raw_fd();
        }
    }
    closed
}

/// Ignores SIGPIPE, so that writing to a closed peer fails with EPIPE. Must be called after
/// [`crate::ignored_signals`].
pub fn ignore_broken_pipes() {
    sys::set_disposition(libc::SIGPIPE as u8, Disposition::Ignore);
}
