//! A child that leads a process group.

use std::io;
use std::process::Child;

use aifo_process::signal_group_number;
use aifo_types::Signal;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::exit_watcher::ExitWatcher;

/// A child that leads its own process group. It is reaped on drop, so that until then its process id
/// is not reused and signals reach only its group. Dropping this kills the group.
#[derive(Debug)]
pub(super) struct GroupLeader {
    child: Child,
    pid: Pid,
}

impl GroupLeader {
    /// Wraps a child that was started as a group leader. An error kills it.
    pub(super) fn new(mut child: Child) -> io::Result<(Self, ExitWatcher)> {
        let watched = i32::try_from(child.id()).map_err(io::Error::other).and_then(|pid| {
            let pid = Pid::from_raw(pid);
            Ok((pid, ExitWatcher::watch(pid)?))
        });
        match watched {
            Ok((pid, exited)) => Ok((GroupLeader { child, pid }, exited)),
            Err(error) => {
                // It may have ended just now.
                let _ = child.kill();
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Kills the group.
    pub(super) fn kill(&self) {
        signal_group_number(self.pid, Signal::Kill.number());
    }
}

impl Drop for GroupLeader {
    fn drop(&mut self) {
        self.kill();
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // It is about to end, and this thread must not wait. Without another thread, init reaps
            // it after this process.
            let pid = self.pid;
            let _ = std::thread::Builder::new().spawn(move || waitpid(pid, None));
        }
    }
}
