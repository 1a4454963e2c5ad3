//! Facts about this machine for the decision.

use std::path::{Path, PathBuf};

use aifo_decide::{FileFacts, ProjectTools};
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
/// own tools come first, and some tools have substitutes.
pub(crate) fn installed_in(kind: &str, tool: &str, directory: &Path, workspace: &Path) -> Lookup {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let activated = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    // Others do not pass (`spec/environment.md`).
    let activated = activated.as_deref().filter(|venv| venv.starts_with(workspace));
    let places = (directory, workspace);
    let is_tool = |path: &Path| is_executable(path) && !is_shim(path);
    let files = (Path::is_file, is_tool);
    let project = ProjectTools::find((kind, tool), (activated, None), places, files);
    let search_path = || project.first_in_path.iter().cloned().chain(std::env::split_paths(&path));
    let names = std::iter::once(tool).chain(project.substitutes.iter().map(|it| it.program));
    let found = names.map(|name| find(name, search_path()));
    found.into_iter().find(|found| *found != Lookup::Absent).unwrap_or(Lookup::Absent)
}

fn find(tool: &str, directories: impl IntoIterator<Item = PathBuf>) -> Lookup {
    let mut best = Lookup::Absent;
    for directory in directories {
        match find_in_path(tool.as_ref(), directory.as_os_str()) {
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
