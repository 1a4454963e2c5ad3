//! A process that is signalled and awaited by a pidfd, so that its pid cannot become another's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use aifo_types::{Ending, Signal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use crate::ending::ending_of;
use crate::sys;

/// A process, which need not be a child of this one.
#[derive(Debug)]
pub struct PinnedProcess(OwnedFd);

impl PinnedProcess {
    /// Pins the process with this pid. The caller then checks that it is the one that it means. Errors: there
    /// is none.
    pub fn open(pid: u32) -> io::Result<Self> {
        Ok(PinnedProcess(sys::pidfd_open(Pid::from_raw(pid.cast_signed()))?))
    }

    /// Sends a signal. Errors: it has ended, or belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(sys::pidfd_send_signal(self.0.as_fd(), signal.number())?)
    }

    /// Returns how it ended, once its parent has taken that. `None` as well before Linux 6.15, or if the kernel
    /// does not show it to this process.
    pub fn ending(&self) -> Option<Ending> {
        sys::pidfd_wait_status(self.0.as_fd()).map(|status| ending_of(ExitStatus::from_raw(status)))
    }

    /// Waits for the end of the process, for at most `limit`; returns whether it has ended.
    pub fn has_ended_within(&self, limit: Duration) -> io::Result<bool> {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let mut ended = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        Ok(poll(&mut ended, limit)? > 0)
    }
}

impl AsFd for PinnedProcess {
    /// Returns a descriptor that is readable once the process has ended, and hung up once its parent has taken
    /// its ending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_pinned_process_ends_by_a_signal() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = PinnedProcess::open(child.id()).unwrap();
        assert!(!process.has_ended_within(Duration::ZERO).unwrap());
        process.signal(Signal::Term).unwrap();
        assert!(process.has_ended_within(Duration::from_secs(60)).unwrap());
        assert_eq!(process.ending(), None, "nobody has waited for it");
        child.wait().unwrap();
        // Before Linux 6.15 it is not known.
        assert!([None, Some(Ending::Signaled(15))].contains(&process.ending()));
        assert!(process.signal(Signal::Term).is_err(), "its pid is free");
        assert!(PinnedProcess::open(child.id()).is_err());
    }
}
