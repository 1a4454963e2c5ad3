//! The first moments of a program that starts by [`crate::entry`], and so as its parent left it.

use std::fs::File;
use std::os::fd::IntoRawFd;
use std::panic::catch_unwind;
use std::process::exit;

use nix::libc;

use crate::sys::{self, Disposition};

/// Runs a program; a panic ends it with 101, as in any other.
#[doc(hidden)]
pub fn start(run: fn() -> !) -> ! {
    let Err(_) = catch_unwind(run);
    exit(101)
}

/// Says which of the fds 0, 1 and 2 our parent left closed, and opens /dev/null there, so that no
/// file of ours gets such a number and with it what somebody believes to write to stderr. To be
/// called first thing. They are close-on-exec: what this program executes in its own place finds
/// them closed again.
pub fn closed_standard_fds() -> [bool; 3] {
    let closed = [0, 1, 2].map(|number| !sys::is_open(number));
    for _ in closed.iter().filter(|is_closed| **is_closed) {
        // The lowest free number is the next of them. Without a /dev/null there is nothing better.
        if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
            let _ = null.into_raw_fd();
        }
    }
    closed
}

/// Ignores SIGPIPE, so that writing to a peer that left is an error we see. To be called once
/// [`crate::ignored_signals`] has told what our parent had arranged.
pub fn ignore_broken_pipes() {
    sys::set_disposition(libc::SIGPIPE as u8, Disposition::Ignore);
}
