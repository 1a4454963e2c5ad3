//! Temporary directories of tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Backend;

/// A new directory, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _removed_on_drop: TempDir,
}

impl Scratch {
    /// Creates a directory. Its path is short: socket paths hold 107 bytes.
    #[expect(clippy::new_without_default, reason = "creating a directory should be explicit")]
    pub fn new() -> Self {
        let parent = fs::canonicalize(Backend::chosen().dirs()).expect("the temp directory exists");
        // Users of containers may read it.
        let mode = fs::Permissions::from_mode(0o755);
        let mut directory = tempfile::Builder::new();
        let directory = directory.prefix("aifo-t").permissions(mode).tempdir_in(&parent);
        let directory =
            directory.unwrap_or_else(|e| panic!("cannot make one in '{}': {e}", parent.display()));
        Scratch { path: directory.path().to_owned(), _removed_on_drop: directory }
    }

    /// Its canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The paths of all non-directories below a directory; none if it does not exist.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                _ => files.push(entry.path()),
            }
        }
    }
    files
}
