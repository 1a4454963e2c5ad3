//! Events of one exec.

use aifo_wire::{Exit, StartError};

/// An event that a runner reports of an exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    /// The tool runs.
    Started,
    /// The tool could not be started. No event follows.
    NotStarted(StartError),
    /// The client whose connection was handed over has disconnected; the runner ends the tool.
    ClientLeft,
    /// The tool has ended. No event follows.
    Ended(Exit),
}
