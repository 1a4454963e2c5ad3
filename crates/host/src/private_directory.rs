//! Directories that only this user may enter.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory of a session that could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the session directory '{}': {source}", path.display())]
pub struct DirectoryError {
    path: PathBuf,
    source: io::Error,
}

impl DirectoryError {
    /// Returns the error of a path with its cause.
    pub fn new(path: &Path, source: io::Error) -> Self {
        DirectoryError { path: path.to_owned(), source }
    }
}

/// Creates a directory with mode 0700, whose parent exists. Errors: it exists, too.
pub fn create_private_directory(path: &Path) -> Result<(), DirectoryError> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.map_err(|source| DirectoryError::new(path, source))
}
