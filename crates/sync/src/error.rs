//! Errors of uploads and fetches.

use std::io;
use std::path::PathBuf;

use crate::path::PathError;

/// Why a workspace could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The stream is not one of this version, or is damaged.
    #[error("the stream is invalid: {0}")]
    Malformed(&'static str),
    /// The stream ended early: its sender ended, or the connection.
    #[error("the stream ended before its end")]
    Truncated,
    /// The stream has more than a limit.
    #[error("the stream has more than {limit} {of}")]
    StreamLimit {
        /// The limit.
        limit: u64,
        /// Its unit.
        of: &'static str,
    },
    /// A path is not one of a workspace.
    #[error("the path '{path}' {why}")]
    Path {
        /// The path, with escapes.
        path: String,
        /// The reason.
        why: PathError,
    },
    /// The workspace is too large to upload.
    #[error(
        "the workspace has more than {limit} {of}; the largest directories are {largest}\n\
         hint: add them to .gitignore, or use --git URL#REF or --pvc NAME"
    )]
    TooLarge {
        /// The limit.
        limit: u64,
        /// Its unit.
        of: &'static str,
        /// Directories of the workspace root, with sizes.
        largest: String,
    },
    /// A file or directory of the workspace cannot be read or written.
    #[error("cannot {action} '{}': {source}", path.display())]
    File {
        /// `read`, `write`, ..
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no git.
    #[error("git is not installed")]
    NoGit,
    /// A command of git failed.
    #[error("git {action} failed: {message}")]
    Git {
        /// The command.
        action: String,
        /// The reason that git printed.
        message: String,
    },
    /// A command of git did not end in time.
    #[error("git {action} did not end within {secs} s")]
    GitTimeout {
        /// The command.
        action: String,
        /// The time.
        secs: u64,
    },
    /// The references of a repository cannot be read.
    #[error("the repository keeps its references in a table (reftable), which aifo does not read")]
    Reftable,
    /// A file changed while it was read.
    #[error("'{path}' changed while it was read")]
    Changed {
        /// The path, with escapes.
        path: String,
    },
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SyncError {
    /// Returns a function that adds action and path to a system's error.
    pub(crate) fn file<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| SyncError::File { action, path, source: source.into() }
    }
}
