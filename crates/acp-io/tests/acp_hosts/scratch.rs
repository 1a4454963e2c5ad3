//! A workspace for a test, and something beside it that nobody may touch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_acp_io::Workspace;

/// A folder of the test's own, gone with it: `ws`, the workspace, which agents know as `/ws` too, and
/// `outside` with a `secret` in it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder = format!("aifo-acp-io-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().canonicalize().unwrap().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("ws")).unwrap();
        std::fs::create_dir_all(folder.join("outside")).unwrap();
        std::fs::write(folder.join("outside/secret"), SECRET).unwrap();
        Scratch(folder)
    }

    /// What lies in the workspace.
    pub(crate) fn ws(&self, path: &str) -> PathBuf {
        self.0.join("ws").join(path)
    }

    /// The same as the agent names it.
    pub(crate) fn named(&self, path: &str) -> String {
        self.ws(path).to_str().unwrap().to_owned()
    }

    /// What lies beside it.
    pub(crate) fn outside(&self) -> PathBuf {
        self.0.join("outside")
    }

    pub(crate) fn workspace(&self) -> Arc<Workspace> {
        Arc::new(Workspace::open(self.0.join("ws"), [PathBuf::from("/ws")]).unwrap())
    }

    /// Nothing outside has been read into the workspace's names, written or made.
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

pub(crate) const SECRET: &str = "nobody's\n";

/// What lies in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
