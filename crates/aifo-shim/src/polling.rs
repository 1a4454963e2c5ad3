//! The one place where the shim waits.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Waits until one of the fds is ready for what it is watched for, or the time is over; what each
/// is ready for. A place that is empty is never ready.
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
        // Let the call that follows say what is wrong.
        Err(_) => PollFlags::all(),
    });
    fds.map(|fd| fd.and_then(|_| ready.next()).unwrap_or(PollFlags::empty()))
}
