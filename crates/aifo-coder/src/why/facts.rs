//! What the decision asks of this machine.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aifo_decide::World;
use aifo_policy::Executables;
use aifo_process::{Lookup, find_in_path};

/// The file system we are in, which the agent would see too.
pub(crate) struct FileSystem;

impl World for FileSystem {
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

/// What stands under a tool's name in the PATH of a local sidecar, which has no shims in it.
pub(crate) fn installed(tool: &str) -> Lookup {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).map(PathBuf::into_os_string);
    let found: Vec<Lookup> =
        folders.map(|folder| find_in_path(tool, &folder)).filter(|found| !is_shim(found)).collect();
    let usable = found.iter().find(|found| matches!(found, Lookup::Found(_)));
    let any = found.iter().find(|found| **found != Lookup::Absent);
    usable.or(any).cloned().unwrap_or(Lookup::Absent)
}

/// [`installed`], with the name that stands in for one many systems do not have.
pub(crate) fn installed_for(tool: &str) -> Lookup {
    match installed(tool) {
        Lookup::Absent if tool == "python" => installed("python3"),
        found => found,
    }
}

fn is_shim(found: &Lookup) -> bool {
    let Lookup::Found(path) = found else { return false };
    let real = path.canonicalize().ok();
    let name: Option<OsString> = real.and_then(|real| real.file_name().map(OsString::from));
    name.is_some_and(|name| name == "aifo-shim")
}
