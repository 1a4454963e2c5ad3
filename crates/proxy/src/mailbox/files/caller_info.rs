//! The `.call` file: the caller directory and variables (`spec/mailbox.md#caller-information`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The content of a `.call` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallerInfo {
    /// The caller directory.
    pub cwd: Option<Vec<u8>>,
    /// The caller path of the workspace.
    pub workspace: Option<Vec<u8>>,
    /// Variables of the caller, `NAME=VALUE`.
    pub variables: Vec<Vec<u8>>,
}

/// The directory to run a command in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkingDirectory {
    /// The workspace root, for a caller outside the workspace.
    WorkspaceRoot,
    /// This path. Links are not resolved, so it may not exist or may lie elsewhere.
    Below(PathBuf),
}

impl CallerInfo {
    /// Parses a `.call` file and ignores unknown keys.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut caller = CallerInfo::default();
        for field in bytes.split(|byte| *byte == 0) {
            let mut halves = field.splitn(2, |byte| *byte == b'=');
            let (Some(key), Some(value)) = (halves.next(), halves.next()) else { continue };
            match key {
                b"cwd" => caller.cwd = Some(value.to_vec()),
                b"workspace" => caller.workspace = Some(value.to_vec()),
                b"env" => caller.variables.push(value.to_vec()),
                _ => {}
            }
        }
        caller
    }

    /// Translates the caller directory to the workspace `root` of the host.
    pub(crate) fn working_directory(&self, root: &Path) -> WorkingDirectory {
        let path = |bytes: &Vec<u8>| PathBuf::from(OsStr::from_bytes(bytes));
        let Some(cwd) = self.cwd.as_ref().map(path) else { return WorkingDirectory::WorkspaceRoot };
        if !cwd.is_absolute() || cwd.components().any(|part| part == Component::ParentDir) {
            return WorkingDirectory::WorkspaceRoot;
        }
        let workspace = self.workspace.as_ref().map(path);
        let workspace = workspace.filter(|path| path.is_absolute() && path.parent().is_some());
        let names = workspace.iter().map(PathBuf::as_path).chain([root]);
        match names.filter_map(|name| cwd.strip_prefix(name).ok()).next() {
            Some(below) if below.as_os_str().is_empty() => WorkingDirectory::WorkspaceRoot,
            Some(below) => WorkingDirectory::Below(root.join(below)),
            None => WorkingDirectory::WorkspaceRoot,
        }
    }

    /// Returns the variables that have one of these names.
    pub(crate) fn variables_named(&self, names: &[String]) -> Vec<Vec<u8>> {
        let is_named = |variable: &&Vec<u8>| {
            let name = variable.split(|byte| *byte == b'=').next().unwrap_or_default();
            variable.contains(&b'=') && names.iter().any(|known| known.as_bytes() == name)
        };
        self.variables.iter().filter(is_named).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_have_any_order_and_unknown_ones_are_ignored() {
        let caller =
            CallerInfo::parse(b"env=A=1\0new=x\0cwd=/w/a=b\0nonsense\0env=B=\0workspace=/w\0");
        let expected = CallerInfo {
            cwd: Some(b"/w/a=b".to_vec()),
            workspace: Some(b"/w".to_vec()),
            variables: vec![b"A=1".to_vec(), b"B=".to_vec()],
        };
        assert_eq!(caller, expected);
        assert_eq!(CallerInfo::parse(b""), CallerInfo::default());
        let names = ["B".to_owned(), "C".to_owned()];
        assert_eq!(caller.variables_named(&names), [b"B=".to_vec()]);
    }

    #[test]
    fn directories_are_translated_or_replaced_by_the_root() {
        let root = Path::new("/home/me/p");
        let rows = [
            (Some("/workspace/a/b"), Some("/workspace"), Some("/home/me/p/a/b")),
            (Some("/workspace"), Some("/workspace"), None),
            (Some("/home/me/p/a"), Some("/workspace"), Some("/home/me/p/a")),
            (Some("/home/me/p/a"), None, Some("/home/me/p/a")),
            (Some("/workspace-evil/a"), Some("/workspace"), None),
            (Some("/tmp"), Some("/workspace"), None),
            (Some("/etc"), Some("/"), None),
            (Some("/workspace/../etc"), Some("/workspace"), None),
            (Some("a/b"), Some("/workspace"), None),
            (Some("/workspace/a"), Some("workspace"), None),
            (None, Some("/workspace"), None),
        ];
        for (cwd, workspace, expected) in rows {
            let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
            let caller =
                CallerInfo { cwd: bytes(cwd), workspace: bytes(workspace), variables: Vec::new() };
            let expected = expected.map_or(WorkingDirectory::WorkspaceRoot, |path| {
                WorkingDirectory::Below(path.into())
            });
            assert_eq!(caller.working_directory(root), expected, "{cwd:?} {workspace:?}");
        }
    }
}
