//! A workspace for a test, and a directory beside it that must not change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_acp_io::Workspace;

/// A temporary directory, removed on drop: `ws` is the workspace, also named `/ws`; `outside` contains
/// `secret`.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let directory = format!("aifo-acp-io-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().canonicalize().unwrap().join(directory);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(directory.join("ws")).unwrap();
        std::fs::create_dir_all(directory.join("outside")).unwrap();
        std::fs::write(directory.join("outside/secret"), SECRET).unwrap();
        Scratch(directory)
    }

    /// Returns a path in the workspace.
    pub(crate) fn ws(&self, path: &str) -> PathBuf {
        self.0.join("ws").join(path)
    }

    /// Returns the same path as text.
    pub(crate) fn named(&self, path: &str) -> String {
        self.ws(path).to_str().unwrap().to_owned()
    }

    /// Returns the directory beside it.
    pub(crate) fn outside(&self) -> PathBuf {
        self.0.join("outside")
    }

    pub(crate) fn workspace(&self) -> Arc<Workspace> {
        Arc::new(Workspace::open(self.0.join("ws"), [PathBuf::from("/ws")]).unwrap())
    }

    /// Asserts that nothing was created or written outside the workspace.
    pub(crate) fn assert_outside_untouched(&self) {
        assert_eq!(names(&self.outside()), ["secret"]);
        assert_eq!(std::fs::read_to_string(self.outside().join("secret")).unwrap(), SECRET);
        assert_eq!(names(&self.0), ["outside", "ws"]);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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
