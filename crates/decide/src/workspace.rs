//! Whether a path lies in the workspace: `spec/decide.md#places`.

use std::cell::OnceCell;
use std::path::{Component, Path, PathBuf};

use crate::decide::FileFacts;

/// Where a path lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathLocation {
    /// In the workspace by its spelling, wherever its links lead.
    Inside,
    /// In the workspace because a link leads there.
    LinksInside,
    /// Outside, both by its spelling and really.
    Outside {
        /// Where its links lead.
        real: PathBuf,
    },
}

/// The workspace as paths are compared with it.
pub(crate) struct Workspace<'w> {
    spelled: PathBuf,
    /// Asked for only when the spelling of a path has not told enough.
    real: OnceCell<PathBuf>,
    files: &'w dyn FileFacts,
}

impl<'w> Workspace<'w> {
    /// The workspace with this root.
    pub(crate) fn new(root: &Path, files: &'w dyn FileFacts) -> Self {
        Workspace { spelled: normalise(root), real: OnceCell::new(), files }
    }

    /// The place of `path`, which is absolute and as typed.
    pub(crate) fn locate(&self, path: &Path) -> PathLocation {
        let spelled = normalise(path);
        if self.contains(&spelled) {
            return PathLocation::Inside;
        }
        let real = self.resolve(path);
        if self.contains(&real) {
            return PathLocation::LinksInside;
        }
        // Behind a link, `..` is ambiguous: the kernel goes up from where the link leads, node from
        // where it stands. The path must be outside by either reading. Where they agree, so do
        // these paths, and the files is not asked twice.
        if path != spelled && self.contains(&self.resolve(&spelled)) {
            return PathLocation::LinksInside;
        }
        PathLocation::Outside { real }
    }

    /// By component, not by prefix: `/workspace-evil` is not in `/workspace`.
    fn contains(&self, path: &Path) -> bool {
        let real = || self.real.get_or_init(|| self.resolve(&self.spelled));
        path.starts_with(&self.spelled) || path.starts_with(real())
    }

    /// Where a path leads. Of one that does not exist, the nearest folder that does tells: node
    /// finds `cli.js` when asked for `cli`, and that is in the workspace if its folder is.
    fn resolve(&self, path: &Path) -> PathBuf {
        let found = path.ancestors().find_map(|ancestor| {
            let rest = path.strip_prefix(ancestor).ok()?;
            Some(self.files.real_path(ancestor)?.join(rest))
        });
        normalise(&found.unwrap_or_else(|| path.to_owned()))
    }
}

/// The absolute path without `.`, `..` and doubled slashes, links as they are.
pub(crate) fn normalise(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let rows = [
            ("/", "/"),
            ("//workspace//a/", "/workspace/a"),
            ("/workspace/./a/../..", "/"),
            ("/workspace/../opt/x", "/opt/x"),
            ("/../..", "/"),
            ("/a/..b/...", "/a/..b/..."),
        ];
        for (path, expected) in rows {
            assert_eq!(normalise(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
