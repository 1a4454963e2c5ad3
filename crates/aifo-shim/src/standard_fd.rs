//! The standard descriptors of this process.

use std::fs::File;
use std::io::{self, Stderr, Stdin, Stdout};
use std::os::fd::{AsFd, BorrowedFd};

use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

#[derive(Debug)]
pub(crate) enum StandardFd {
    Input(Stdin),
    Output(Stdout),
    Error(Stderr),
}

impl StandardFd {
    pub(crate) fn all() -> [Self; 3] {
        [Self::input(), Self::output(), Self::error()]
    }

    pub(crate) fn input() -> Self {
        StandardFd::Input(io::stdin())
    }

    pub(crate) fn output() -> Self {
        StandardFd::Output(io::stdout())
    }

    pub(crate) fn error() -> Self {
        StandardFd::Error(io::stderr())
    }

    pub(crate) fn duplicate_handle(&self) -> Self {
        match self {
            StandardFd::Input(_) => Self::input(),
            StandardFd::Output(_) => Self::output(),
            StandardFd::Error(_) => Self::error(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            StandardFd::Input(_) => "stdin",
            StandardFd::Output(_) => "stdout",
            StandardFd::Error(_) => "stderr",
        }
    }

    /// Returns the path that opens it again, for a separate open file description: the inherited
    /// one is shared with the parent.
    pub(crate) fn path(&self) -> &'static str {
        match self {
            StandardFd::Input(_) => "/proc/self/fd/0",
            StandardFd::Output(_) => "/proc/self/fd/1",
            StandardFd::Error(_) => "/proc/self/fd/2",
        }
    }

    /// Replaces descriptors with `/dev/null`, so that only the tool holds their files open.
    pub(crate) fn replace_with_null<'a>(fds: impl IntoIterator<Item = &'a StandardFd>) {
        let mut fds = fds.into_iter().peekable();
        if fds.peek().is_none() {
            return;
        }
        // The numbers must stay in use, or a later open could reuse them. Without /dev/null the
        // copies stay open, which only delays what the other end sees.
        let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { return };
        for fd in fds {
            let _ = match fd {
                StandardFd::Input(_) => dup2_stdin(&null),
                StandardFd::Output(_) => dup2_stdout(&null),
                StandardFd::Error(_) => dup2_stderr(&null),
            };
        }
    }
}

impl AsFd for StandardFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            StandardFd::Input(fd) => fd.as_fd(),
            StandardFd::Output(fd) => fd.as_fd(),
            StandardFd::Error(fd) => fd.as_fd(),
        }
    }
}
