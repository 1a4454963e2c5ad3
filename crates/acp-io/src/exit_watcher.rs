//! Waits for a child's exit without reaping it.

use std::fmt;
use std::io;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::sync::oneshot;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// With this exit code.
    Code(i32),
    /// By the signal of this name.
    Signal(&'static str),
    /// By a signal without a name, or in a way that the system does not report.
    Unknown,
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessExit::Code(code) => write!(f, "exit status {code}"),
            ProcessExit::Signal(name) => write!(f, "killed by {name}"),
            ProcessExit::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// Waits for a process without reaping it, so that its id, and its group's, is not reused.
#[derive(Debug)]
pub(crate) struct ExitWatcher {
    receiver: Option<oneshot::Receiver<ProcessExit>>,
    exit: Option<ProcessExit>,
}

impl ExitWatcher {
    /// Starts a thread that waits for a child.
    pub(crate) fn watch(pid: Pid) -> io::Result<Self> {
        let (sender, receiver) = oneshot::channel();
        let wait = move || {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let exit = loop {
                match waitid(Id::Pid(pid), flags) {
                    Err(Errno::EINTR) => {}
                    Ok(WaitStatus::Exited(_, code)) => break ProcessExit::Code(code),
                    Ok(WaitStatus::Signaled(_, signal, _)) => {
                        break ProcessExit::Signal(signal.as_str());
                    }
                    _ => break ProcessExit::Unknown,
                }
            };
            // The receiver may be dropped.
            let _ = sender.send(exit);
        };
        std::thread::Builder::new().name("aifo-agent-end".to_owned()).spawn(wait)?;
        Ok(ExitWatcher { receiver: Some(receiver), exit: None })
    }

    /// Waits for the exit; returns at once if it is known. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            self.exit = Some(receiver.await.unwrap_or(ProcessExit::Unknown));
            self.receiver = None;
        }
    }

    /// Returns the exit, which is known once [`ExitWatcher::wait`] has returned.
    pub(crate) fn exit(&self) -> Option<ProcessExit> {
        self.exit
    }
}
