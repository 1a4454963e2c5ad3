//! Checks whether a path is in the workspace (`spec/decide.md#paths`).

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use aifo_types::normalise_path;

use crate::file_facts::FileFacts;

/// The location of a path relative to the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathLocation {
    /// Lexically inside, regardless of links.
    Inside,
    /// Lexically outside, but a link points inside.
    LinksInside,
    /// Outside, lexically and with links resolved.
    Outside {
        /// The path with links resolved.
        real: PathBuf,
    },
}

/// The paths of the workspace root, lexical and resolved.
pub(crate) struct Workspace<'w> {
    lexical: Vec<PathBuf>,
    /// Resolved only when the lexical comparison is not conclusive.
    real: OnceCell<Vec<PathBuf>>,
    files: &'w dyn FileFacts,
}

impl<'w> Workspace<'w> {
    /// Creates a workspace with these paths of its root.
    pub(crate) fn new<'p>(
        roots: impl IntoIterator<Item = &'p PathBuf>,
        files: &'w dyn FileFacts,
    ) -> Self {
        let lexical = roots.into_iter().map(|root| normalise_path(root)).collect();
        Workspace { lexical, real: OnceCell::new(), files }
    }

    /// Locates the absolute `path`, as typed.
    pub(crate) fn locate(&self, path: &Path) -> PathLocation {
        let lexical = normalise_path(path);
        if self.contains(&lexical) {
            return PathLocation::Inside;
        }
        let real = self.resolve(path);
        if self.contains(&real) {
            return PathLocation::LinksInside;
        }
        // `..` after a link is ambiguous: the kernel resolves it against the link's target, node
        // against the link's own directory. The path must be outside by both readings. Without
        // `..` the two are equal, which saves the second lookup.
        if path != lexical && self.contains(&self.resolve(&lexical)) {
            return PathLocation::LinksInside;
        }
        PathLocation::Outside { real }
    }

    /// Compares by component: `/workspace-evil` is not in `/workspace`.
    fn contains(&self, path: &Path) -> bool {
        let resolve = || self.lexical.iter().map(|root| self.resolve(root)).collect();
        let real = || self.real.get_or_init(resolve).iter();
        self.lexical.iter().any(|root| path.starts_with(root))
            || real().any(|root| path.starts_with(root))
    }

    /// Resolves links. If the path does not exist, resolves its nearest existing parent: for `cli`
    /// node finds `cli.js`, which is in the workspace if its directory is.
    fn resolve(&self, path: &Path) -> PathBuf {
        let found = path.ancestors().find_map(|ancestor| {
            let rest = path.strip_prefix(ancestor).ok()?;
            Some(self.files.real_path(ancestor)?.join(rest))
        });
        normalise_path(&found.unwrap_or_else(|| path.to_owned()))
    }
}
