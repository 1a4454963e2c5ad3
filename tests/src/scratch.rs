//! Temporary directories of tests.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Backend;

/// A new directory by its canonical path, removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory. Its path is short: socket paths hold 107 bytes.
    #[expect(clippy::new_without_default, reason = "creating a directory should be explicit")]
    pub fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let parent = fs::canonicalize(Backend::chosen().dirs()).expect("the temp directory exists");
        loop {
            let serial = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("aifo-t{}-{serial}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Scratch(path),
                // Left by a killed test process with the same pid.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => panic!("cannot make '{}': {e}", path.display()),
            }
        }
    }

    /// Its canonical path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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
