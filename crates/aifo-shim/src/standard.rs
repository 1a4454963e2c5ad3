//! The three descriptors that a program is started with.

use std::fs::File;
use std::io::{self, Stderr, Stdin, Stdout};
use std::os::fd::{AsFd, BorrowedFd};

use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

/// One of our own 0, 1 and 2.
#[derive(Debug)]
pub(crate) enum Standard {
    Input(Stdin),
    Output(Stdout),
    Error(Stderr),
}

impl Standard {
    /// Each under its number.
    pub(crate) fn all() -> [Self; 3] {
        [Self::input(), Self::output(), Self::error()]
    }

    pub(crate) fn input() -> Self {
        Standard::Input(io::stdin())
    }

    pub(crate) fn output() -> Self {
        Standard::Output(io::stdout())
    }

    pub(crate) fn error() -> Self {
        Standard::Error(io::stderr())
    }

    /// The same once more.
    pub(crate) fn again(&self) -> Self {
        match self {
            Standard::Input(_) => Self::input(),
            Standard::Output(_) => Self::output(),
            Standard::Error(_) => Self::error(),
        }
    }

    /// Its name, for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Standard::Input(_) => "stdin",
            Standard::Output(_) => "stdout",
            Standard::Error(_) => "stderr",
        }
    }

    /// Where it can be opened once more, for flags of our own: the open file that we were given is
    /// shared with whoever started us.
    pub(crate) fn path(&self) -> &'static str {
        match self {
            Standard::Input(_) => "/proc/self/fd/0",
            Standard::Output(_) => "/proc/self/fd/1",
            Standard::Error(_) => "/proc/self/fd/2",
        }
    }

    /// Gives our copies up, so that who is at the other end sees only the tool come and go.
    pub(crate) fn let_go<'a>(these: impl IntoIterator<Item = &'a Standard>) {
        let mut these = these.into_iter().peekable();
        if these.peek().is_none() {
            return;
        }
        // The numbers stay taken: nothing that is opened later may be mistaken for them. Without a
        // /dev/null our copies stay as well, which only delays what the other end sees.
        let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { return };
        for standard in these {
            let _ = match standard {
                Standard::Input(_) => dup2_stdin(&null),
                Standard::Output(_) => dup2_stdout(&null),
                Standard::Error(_) => dup2_stderr(&null),
            };
        }
    }
}

impl AsFd for Standard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Standard::Input(fd) => fd.as_fd(),
            Standard::Output(fd) => fd.as_fd(),
            Standard::Error(fd) => fd.as_fd(),
        }
    }
}
