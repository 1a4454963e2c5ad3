//! Facts about this machine for the decision.

use std::path::{Path, PathBuf};

use aifo_decide::FileFacts;
use aifo_process::{Lookup, find_in_path, is_executable};

/// The file system of this process, which the agent would see too.
pub(crate) struct FileSystem;

impl FileFacts for FileSystem {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_executable(&self, path: &Path) -> bool {
        is_executable(path)
    }
}

/// Looks up a tool in PATH, ignoring shims.
pub(crate) fn installed(tool: &str) -> Lookup {
    find(tool, std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()))
}

/// Looks up the program that the local sidecar of a kind runs for a tool in a directory: the project's
/// own tools come first, and some tools substitute others.
pub(crate) fn installed_in(kind: &str, tool: &str, directory: &Path, workspace: &Path) -> Lookup {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let upwards = || directory.ancestors().take_while(|directory| directory.starts_with(workspace));
    let has = |directory: &Path, name: &str| {
        matches!(find(name, [directory.to_owned()]), Lookup::Found(_))
    };
    let mut venvs = upwards().map(|directory| directory.join(".venv/bin"));
    let mut modules = upwards().map(|directory| directory.join("node_modules/.bin"));
    let (first, instead) = match (kind, tool) {
        ("python", "python") => (venvs.find(|bin| has(bin, "python3")), Some("python3")),
        ("python", _) => (venvs.find(|bin| has(bin, "python3")), None),
        ("node", "tsc") => (modules.find(|bin| has(bin, "tsc")), Some("npx")),
        _ => (None, None),
    };
    let search_path = || first.iter().cloned().chain(std::env::split_paths(&path));
    match (find(tool, search_path()), instead) {
        (Lookup::Absent, Some(instead)) => find(instead, search_path()),
        (found, _) => found,
    }
}

fn find(tool: &str, directories: impl IntoIterator<Item = PathBuf>) -> Lookup {
    let mut best = Lookup::Absent;
    for directory in directories {
        match find_in_path(tool, directory.as_os_str()) {
            Lookup::Found(path) if !is_shim(&path) => return Lookup::Found(path),
            found @ Lookup::NotExecutable(_) if best == Lookup::Absent => best = found,
            _ => {}
        }
    }
    best
}

/// Shims of an enclosing session are in this PATH, but not in that of sidecars.
fn is_shim(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real.file_name() == Some("aifo-shim".as_ref()))
}
