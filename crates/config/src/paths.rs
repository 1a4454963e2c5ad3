//! Paths of the configuration files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The workspace file, in its root.
pub(crate) const WORKSPACE_FILE: &str = ".aifo.toml";

/// Returns `$XDG_CONFIG_HOME/aifo/config.toml` or `~/.config/aifo/config.toml`; `None` without a
/// home directory.
pub fn user_file_path() -> Option<PathBuf> {
    let directory =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")));
    base.map(|base| base.join("aifo/config.toml"))
}

/// Returns the path of the user's file for hints.
pub fn user_file_name() -> String {
    let path = user_file_path().unwrap_or_else(|| "~/.config/aifo/config.toml".into());
    path.display().to_string()
}

/// Returns the real path of the workspace, or `workspace` if it does not exist, which the session
/// reports.
pub fn real(workspace: &Path) -> PathBuf {
    workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned())
}

/// Returns a function that reads a link at a path relative to the workspace, for the judge.
pub(crate) fn links_below(workspace: &Path) -> impl Fn(&[u8]) -> Option<Vec<u8>> + use<> {
    let workspace = real(workspace);
    move |path| {
        let target = std::fs::read_link(workspace.join(OsStr::from_bytes(path))).ok()?;
        Some(OsString::from(target).into_vec())
    }
}

/// Returns the path of the workspace file.
pub fn workspace_file_path(workspace: &Path) -> PathBuf {
    workspace.join(WORKSPACE_FILE)
}
