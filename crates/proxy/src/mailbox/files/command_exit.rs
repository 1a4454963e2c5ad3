//! The exit of a command, as its answer states it.

use std::fmt;

/// An exit code with an optional reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandExit {
    /// The client's exit code.
    pub code: u8,
    /// `None` if the command exited by itself.
    pub reason: Option<ExitReason>,
}

/// Why a command has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// This signal ended it.
    Signal(u8),
    /// It exceeded the time limit.
    Timeout,
    /// The daemon was shut down.
    Shutdown,
    /// It exceeded the output limit.
    Output,
    /// Its runner or daemon was lost.
    Lost,
    /// Nothing ran.
    Refused,
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitReason::Signal(number) => write!(f, "signal {number}"),
            ExitReason::Timeout => f.write_str("timeout"),
            ExitReason::Shutdown => f.write_str("shutdown"),
            ExitReason::Output => f.write_str("output"),
            ExitReason::Lost => f.write_str("lost"),
            ExitReason::Refused => f.write_str("refused"),
        }
    }
}
