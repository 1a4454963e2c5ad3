//! The standard descriptors of this process.

use std::io::{self, Stderr, Stdin, Stdout};
use std::os::fd::{AsFd, BorrowedFd};

use aifo_process::kernel;

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
        let [input, output, error] = kernel::standard_fds();
        // Without /dev/null the copies stay open, which only delays what the other end sees.
        kernel::replace_with_null(fds.into_iter().map(|fd| match fd {
            StandardFd::Input(_) => input,
            StandardFd::Output(_) => output,
            StandardFd::Error(_) => error,
        }));
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
