//! A workspace for a test, and a directory beside it that must not change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_acp_io::Workspace;
use tempfile::TempDir;

/// A temporary directory, removed on drop: `ws` is the workspace, also named `/ws`; `outside` contains
/// `secret`.
pub(crate) struct Scratch {
    path: PathBuf,
    _removed_on_drop: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        std::fs::create_dir(path.join("ws")).unwrap();
        std::fs::create_dir(path.join("outside")).unwrap();
        std::fs::write(path.join("outside/secret"), SECRET).unwrap();
        Scratch { path, _removed_on_drop: directory }
    }

    /// Returns a path in the workspace.
    pub(crate) fn ws(&self, path: &str) -> PathBuf {
        self.path.join("ws").join(path)
    }

    /// Returns the same path as text.
    pub(crate) fn named(&self, path: &str) -> String {
        self.ws(path).to_str().unwrap().to_owned()
    }

    /// Returns the directory beside it.
    pub(crate) fn outside(&self) -> PathBuf {
        self.path.join("outside")
    }

    pub(crate) fn workspace(&self) -> Arc<Workspace> {
        Arc::new(Workspace::open(self.path.join("ws"), [PathBuf::from("/ws")]).unwrap())
    }

    /// Asserts that nothing was created or written outside the workspace.
    pub(crate) fn assert_outside_untouched(&self) {
        assert_eq!(names(&self.outside()), ["secret"]);
        assert_eq!(std::fs::read_to_string(self.outside().join("secret")).unwrap(), SECRET);
        assert_eq!(names(&self.path), ["outside", "ws"]);
    }
}

pub(crate) const SECRET: &str = "secret\n";

/// Returns the sorted names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
