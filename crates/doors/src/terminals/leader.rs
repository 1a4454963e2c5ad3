//! A child that is a process group leader, and its end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;

use aifo_process::{pidfd_open, signal_group_number};
use aifo_sidecar::on_reactor;
use aifo_types::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How a command has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By the signal of this name.
    Signal(String),
}

impl Exit {
    /// The protocol's form.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Exit::Code(code) => json!({"exitCode": code, "signal": null}),
            Exit::Signal(name) => json!({"exitCode": null, "signal": name}),
        }
    }
}

/// A child in its own process group. It is not reaped while this exists, so its PID is not reused and
/// signals reach only its group. Dropping this kills the group.
#[derive(Debug)]
pub(super) struct Leader {
    child: Child,
    pid: Pid,
    /// Readable when it has ended.
    ended: AsyncFd<OwnedFd>,
}

impl Leader {
    /// Wraps a child that was started as a group leader. An error kills it.
    pub(super) fn new(mut child: Child) -> io::Result<Self> {
        let watched = i32::try_from(child.id()).map_err(io::Error::other).and_then(|pid| {
            let pid = Pid::from_raw(pid);
            Ok((pid, on_reactor(pidfd_open(pid)?, Interest::READABLE)?))
        });
        match watched {
            Ok((pid, ended)) => Ok(Leader { child, pid, ended }),
            Err(error) => {
                // It may have ended just now.
                let _ = child.kill();
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Ends the group, and what the leader has left of it.
    pub(super) fn kill(&self) {
        signal_group_number(self.pid, Signal::Kill.number());
    }

    /// Waits for the leader's end and returns its status; may be called again. Cancel-safe.
    pub(super) async fn exit(&self) -> Exit {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            let Ok(mut ready) = self.ended.readable().await else {
                // The runtime is at its end, and so is this task.
                return std::future::pending().await;
            };
            match waitid(Id::PIDFd(self.ended.get_ref().as_fd()), flags) {
                Ok(WaitStatus::StillAlive) => ready.clear_ready(),
                Ok(WaitStatus::Exited(_, code)) => return Exit::Code(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    return Exit::Signal(signal.as_str().to_owned());
                }
                // A real-time signal, which has no name here.
                _ => return Exit::Signal("unknown".to_owned()),
            }
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.kill();
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // It is about to end, and who drops this may be a runtime that cannot wait. Without a
            // thread it is reaped when we end.
            let pid = self.pid;
            let _ = std::thread::Builder::new().spawn(move || waitpid(pid, None));
        }
    }
}
