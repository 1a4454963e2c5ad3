//! Paths in a workspace.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The bytes of a workspace path, relative to its root; empty for the root.
pub type Path = Box<[u8]>;

/// Returns the directory that contains a path; `None` for the root.
pub(crate) fn parent(path: &[u8]) -> Option<&[u8]> {
    if path.is_empty() {
        return None;
    }
    Some(path.iter().rposition(|byte| *byte == b'/').and_then(|at| path.get(..at)).unwrap_or(b""))
}

/// Returns the path to a name in a directory.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Path {
    match directory.is_empty() {
        true => name.into(),
        false => [directory, b"/", name].concat().into(),
    }
}

/// Returns whether a path lies below a directory.
pub(crate) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty() && !path.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Returns a path as text for a terminal.
pub(crate) fn shown(path: &[u8]) -> String {
    aifo_types::escape_line(&String::from_utf8_lossy(path))
}

/// Returns the last name in a path.
pub(crate) fn name(path: &[u8]) -> &[u8] {
    parent(path)
        .and_then(|above| path.get(above.len() + usize::from(!above.is_empty())..))
        .unwrap_or(path)
}

/// Returns a path for the system.
pub(crate) fn as_path(path: &[u8]) -> &std::path::Path {
    std::path::Path::new(OsStr::from_bytes(path))
}

/// Returns whether a path is one of these files, or in one of these directories; without any, it is.
pub fn is_selected(path: &[u8], chosen: &[String]) -> bool {
    let contains = |chosen: &String| path == chosen.as_bytes() || is_below(path, chosen.as_bytes());
    chosen.is_empty() || chosen.iter().any(contains)
}
