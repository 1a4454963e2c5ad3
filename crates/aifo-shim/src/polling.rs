//! The shim's `poll`.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Waits until a descriptor is ready or the timeout has passed. Returns the ready events of each;
/// an empty slot is never ready.
pub(crate) fn poll_fds<const N: usize>(
    fds: [Option<(BorrowedFd<'_>, PollFlags)>; N],
    timeout: PollTimeout,
) -> [PollFlags; N] {
    let watched = fds.iter().flatten().map(|(fd, events)| PollFd::new(*fd, *events));
    let mut watched: Vec<_> = watched.collect();
    let waited = poll(&mut watched, timeout);
    let mut ready = watched.iter().map(|fd| match waited {
        Ok(_) => fd.revents().unwrap_or(PollFlags::all()),
        Err(Errno::EINTR) => PollFlags::empty(),
        // The following system call reports the error.
        Err(_) => PollFlags::all(),
    });
    fds.map(|fd| fd.and_then(|_| ready.next()).unwrap_or(PollFlags::empty()))
}
