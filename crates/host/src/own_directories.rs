//! Directories of aifo that are independent of a session.

use std::path::{Path, PathBuf};

use crate::session_dir::{runtime_directory, session_of, temporary_directory};

/// A directory of aifo, and its name in error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnDirectory {
    pub(crate) description: &'static str,
    /// Resolved as far as it exists.
    pub(crate) path: PathBuf,
}

/// Returns the directories of configuration, state, data and caches. No workspace may lie in one or
/// contain one.
pub(crate) fn own_directories() -> Vec<OwnDirectory> {
    let below = |variable, home| base(variable, home).map(|base| base.join("aifo"));
    let directories = [
        ("aifo's configuration directory", below("XDG_CONFIG_HOME", ".config")),
        ("aifo's state directory", state_directory()),
        ("aifo's data directory", data_directory()),
        ("aifo's cache directory", cache_directory()),
    ];
    let named =
        directories.into_iter().filter_map(|(description, path)| Some((description, path?)));
    named.map(|(description, path)| OwnDirectory { description, path: real_path(&path) }).collect()
}

/// Returns the directory of persistent state: `$XDG_STATE_HOME/aifo`, else `~/.local/state/aifo`.
pub fn state_directory() -> Option<PathBuf> {
    base("XDG_STATE_HOME", ".local/state").map(|base| base.join("aifo"))
}

/// Returns the directory of all agents' states; `None` without a home.
pub fn states_directory() -> Option<PathBuf> {
    data_directory().map(|data| data.join("state"))
}

/// Returns the directory of data: `$XDG_DATA_HOME/aifo`, else `~/.local/share/aifo`.
fn data_directory() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share").map(|base| base.join("aifo"))
}

/// Returns the directory of local sidecars' caches.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    aifo_sidecar::cache_directory(|name| std::env::var_os(name))
}

/// Returns the parents of session directories. Other programs may use them too, such as `/tmp`.
pub(crate) fn session_parents() -> Vec<PathBuf> {
    let parents = [runtime_directory(), std::env::temp_dir(), temporary_directory()];
    let mut parents = parents.map(|path| real_path(&path)).to_vec();
    parents.sort();
    parents.dedup();
    parents
}

/// Returns whether a real path is a session directory or lies in one.
pub(crate) fn lies_in_session(path: &Path) -> bool {
    let parents = session_parents();
    path.ancestors().any(|directory| {
        let name = directory.file_name().and_then(|name| name.to_str());
        let is_sessions = name.and_then(session_of).is_some();
        is_sessions && parents.iter().any(|parent| directory.parent() == Some(parent))
    })
}

/// Resolves the links of a path as far as it exists.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        // Joining an empty path would add a slash.
        let real = existing.canonicalize().ok()?;
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    });
    real.unwrap_or_else(|| path.to_owned())
}

/// Returns `HOME`, if it is an absolute path.
pub fn home() -> Option<PathBuf> {
    absolute("HOME")
}

fn base(variable: &str, home_relative: &str) -> Option<PathBuf> {
    absolute(variable).or_else(|| Some(home()?.join(home_relative)))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_resolved_as_far_as_it_exists() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        std::fs::create_dir(base.join("there")).unwrap();
        std::os::unix::fs::symlink(base.join("there"), base.join("link")).unwrap();
        let there = base.join("there").canonicalize().unwrap();
        assert_eq!(real_path(&base.join("link")), there);
        assert_eq!(real_path(&base.join("link/not/yet")), there.join("not/yet"));
    }

    #[test]
    fn session_directories_are_known_by_parent_and_name() {
        let parent = &session_parents()[0];
        let id = "aifo-5d0c3b7f9a21e846";
        assert!(lies_in_session(&parent.join(id)));
        assert!(lies_in_session(&parent.join(id).join("back/rust")));
        assert!(lies_in_session(&parent.join(format!("{id}-tmp/x"))));
        assert!(!lies_in_session(&parent.join("aifo-work")));
        assert!(!lies_in_session(&parent.join("elsewhere").join(id)));
    }
}
