//! Errors.

use std::io;

/// Why the history cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The action.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// git failed, with its last line.
    #[error("git failed in the store: {0}")]
    Git(String),
    /// The store has something that this crate did not write.
    #[error("the store is damaged: {0}\nhint: 'aifo-coder clean --history' removes it")]
    Damaged(&'static str),
    /// The process that writes the store has ended.
    #[error("the process that stores checkpoints has ended")]
    Ended,
    /// There is no such call, turn or session.
    #[error("{0}")]
    Unknown(String),
}
