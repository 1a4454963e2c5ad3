//! The queries about files that a decision needs.

use std::path::{Path, PathBuf};

/// Facts about the agent file system, queried only when the decision depends on them.
pub trait FileFacts {
    /// Returns the absolute `path` with all links resolved, as `realpath(3)` does; `None` if it
    /// does not exist.
    fn real_path(&self, path: &Path) -> Option<PathBuf>;
    /// Returns whether `path` is a regular file.
    fn is_file(&self, path: &Path) -> bool;
    /// Returns whether `path` is a regular file that this process may execute, and is not the shim: in
    /// the agent container the shim is mounted in the place of interpreters.
    fn is_executable(&self, path: &Path) -> bool;
}
