//! What the decision asks of this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aifo_decide::FileFacts;
use aifo_policy::Executables;
use aifo_process::{Lookup, find_in_path};

/// The file system we are in, which the agent would see too.
pub(crate) struct FileSystem;

impl FileFacts for FileSystem {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_executable(&self, path: &Path) -> bool {
        path.metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    }
}

impl Executables for FileSystem {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        let usable = path.is_dir() || self.is_executable(path);
        usable.then(|| path.canonicalize().ok()).flatten()
    }
}

/// What stands under a tool's name in PATH, shims aside.
pub(crate) fn installed(tool: &str) -> Lookup {
    find(tool, std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()))
}

/// What the local sidecar of a kind executes for a tool in a directory: a project's own tools come
/// first, and some tools stand in for others.
pub(crate) fn installed_in(kind: &str, tool: &str, directory: &Path, workspace: &Path) -> Lookup {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let upwards = || directory.ancestors().take_while(|folder| folder.starts_with(workspace));
    let has =
        |folder: &Path, name: &str| matches!(find(name, [folder.to_owned()]), Lookup::Found(_));
    let mut venvs = upwards().map(|folder| folder.join(".venv/bin"));
    let mut modules = upwards().map(|folder| folder.join("node_modules/.bin"));
    let (first, instead) = match (kind, tool) {
        ("python", "python") => (venvs.find(|bin| has(bin, "python3")), Some("python3")),
        ("python", _) => (venvs.find(|bin| has(bin, "python3")), None),
        ("node", "tsc") => (modules.find(|bin| has(bin, "tsc")), Some("npx")),
        _ => (None, None),
    };
    let folders = || first.iter().cloned().chain(std::env::split_paths(&path));
    match (find(tool, folders()), instead) {
        (Lookup::Absent, Some(instead)) => find(instead, folders()),
        (found, _) => found,
    }
}

fn find(tool: &str, folders: impl IntoIterator<Item = PathBuf>) -> Lookup {
    let mut best = Lookup::Absent;
    for folder in folders {
        match find_in_path(tool, folder.as_os_str()) {
            Lookup::Found(path) if !is_shim(&path) => return Lookup::Found(path),
            found @ Lookup::NotExecutable(_) if best == Lookup::Absent => best = found,
            _ => {}
        }
    }
    best
}

/// A session that we run inside of has its shims in PATH, its sidecars do not.
fn is_shim(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real.file_name() == Some("aifo-shim".as_ref()))
}
