//! Paths of a workspace.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_types::escape_line;

/// A relative path of names: no root, no `.`, no `..`, no empty name, no NUL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(Vec<u8>);

/// Why bytes are not the path of a file that may come from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is absolute, or has an empty name, `.` or `..`.
    #[error("is not a relative path of plain names")]
    Form,
    /// It or a name of it is too long.
    #[error("is too long")]
    Long,
    /// It is in a directory `.git`, where programs are configured.
    #[error("is in a repository's directory")]
    Repository,
    /// It is in aifo's own directory.
    #[error("is in aifo's own directory")]
    Reserved,
}

/// Bytes of a path, as in Linux' PATH_MAX without the end.
pub(crate) const MAX_PATH: usize = 4095;
const MAX_NAME: usize = 255;
/// The start of names in the workspace's root that are not copied.
const RESERVED: &[u8] = b".aifo-";

impl WorkspacePath {
    /// Parses the bytes of a path.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.len() > MAX_PATH || bytes.split(|byte| *byte == b'/').any(|it| it.len() > MAX_NAME)
        {
            return Err(PathError::Long);
        }
        let is_name = |name: &[u8]| !name.is_empty() && name != b"." && name != b"..";
        let is_plain = bytes.split(|byte| *byte == b'/').all(is_name) && !bytes.contains(&0);
        if is_plain { Ok(WorkspacePath(bytes.to_owned())) } else { Err(PathError::Form) }
    }

    /// Parses the path of a pod file, which is not in a repository directory.
    pub(crate) fn of_pod(bytes: &[u8]) -> Result<Self, PathError> {
        let path = WorkspacePath::parse(bytes)?;
        if path.is_in_repository() {
            return Err(PathError::Repository);
        }
        if path.is_reserved() {
            return Err(PathError::Reserved);
        }
        Ok(path)
    }

    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns it as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    /// Returns whether a name of it is a repository directory. Git compares without case, and ignores dots and
    /// spaces at the end, for file systems that do.
    pub(crate) fn is_in_repository(&self) -> bool {
        self.names().any(|name| {
            let end =
                name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |at| at + 1);
            let name = name.get(..end).unwrap_or_default();
            name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b"git~1")
        })
    }

    /// Returns whether it is one of aifo's own, which are not copied.
    pub(crate) fn is_reserved(&self) -> bool {
        self.names().next().is_some_and(|name| {
            name.get(..RESERVED.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED))
        })
    }

    /// Returns whether a link at this path stays in the workspace: its target is relative, `..` is only at the start
    /// of it, and there at most as often as the link has directories. A `..` after a name could follow another
    /// link.
    pub(crate) fn keeps_inside(&self, target: &[u8]) -> bool {
        let depth = self.names().count() - 1;
        let names: Vec<&[u8]> = target.split(|byte| *byte == b'/').collect();
        let up = names.iter().take_while(|name| **name == b"..").count();
        let rest = names.get(up..).unwrap_or_default();
        let is_absolute = target.first().is_none_or(|byte| *byte == b'/');
        let is_repository = rest
            .iter()
            .any(|name| WorkspacePath::parse(name).is_ok_and(|name| name.is_in_repository()));
        !is_absolute
            && !target.contains(&0)
            && target.len() <= MAX_PATH
            && up <= depth
            && !rest.contains(&&b".."[..])
            && !is_repository
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_line(&String::from_utf8_lossy(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_a_path() {
        for path in ["a", "a/b", "..a/b..", "a b/\u{e4}", ".gitignore", "-x", "C:\\x", "a\nb"] {
            assert!(WorkspacePath::of_pod(path.as_bytes()).is_ok(), "{path}");
        }
        let long = "x".repeat(256);
        let deep = "x/".repeat(2048) + "x";
        for (path, why) in [
            ("", PathError::Form),
            ("/", PathError::Form),
            ("/etc/passwd", PathError::Form),
            ("..", PathError::Form),
            ("../x", PathError::Form),
            ("a/../../x", PathError::Form),
            ("a/./b", PathError::Form),
            ("a//b", PathError::Form),
            ("a/", PathError::Form),
            ("a\0b", PathError::Form),
            (&long, PathError::Long),
            (&deep, PathError::Long),
            (".git", PathError::Repository),
            (".git/hooks/pre-commit", PathError::Repository),
            ("sub/.GIT/config", PathError::Repository),
            ("sub/.git. /config", PathError::Repository),
            ("GIT~1/config", PathError::Repository),
            (".aifo-conflicts/x", PathError::Reserved),
            (".AIFO-fetch-1/0", PathError::Reserved),
        ] {
            assert_eq!(WorkspacePath::of_pod(path.as_bytes()), Err(why), "{path:?}");
        }
        assert!(WorkspacePath::parse(b".git/HEAD").is_ok(), "an upload has it");
    }

    #[test]
    fn a_link_stays_in_the_workspace() {
        for (path, target, expected) in [
            ("a", "b", true),
            ("a", "b/c", true),
            ("d/a", "../b", true),
            ("d/e/a", "../../b", true),
            ("a", "./b", true),
            ("a", "..", false),
            ("a", "../b", false),
            ("d/a", "../../b", false),
            ("a", "/etc/passwd", false),
            ("a", "", false),
            // `l` may be a link to `..`.
            ("d/e/a", "l/../../x", false),
            ("d/a", "x/..", false),
            ("a", ".git/hooks", false),
            ("d/a", "../.git/config", false),
            ("a", "b\0c", false),
        ] {
            let path = WorkspacePath::parse(path.as_bytes()).unwrap();
            assert_eq!(path.keeps_inside(target.as_bytes()), expected, "{path} -> {target:?}");
        }
    }
}
