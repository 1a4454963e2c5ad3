//! Removals by `cleanup`, `cache clear` and `state clear`.

use std::path::Path;

use aifo_launch::{Project, ProjectKey};
use aifo_types::escape_line;
use anyhow::Context;

use crate::{console, paint};

/// The result for one thing.
pub(crate) enum Removal<E> {
    /// Found by a dry run.
    Found,
    Removed,
    Failed(E),
}

impl<E: std::error::Error + Send + Sync + 'static> Removal<E> {
    /// Removes a thing, except in a dry run.
    pub(crate) async fn run(dry_run: bool, remove: impl Future<Output = Result<(), E>>) -> Self {
        match dry_run {
            true => Removal::Found,
            false => remove.await.map_or_else(Removal::Failed, |()| Removal::Removed),
        }
    }

    /// Prints a line; for a failure on stderr. Returns whether the removal failed.
    pub(crate) fn print(self, name: &str) -> anyhow::Result<bool> {
        let name = escape_line(name);
        match self {
            Removal::Found => paint::print(&format!("would remove {name}\n"))?,
            Removal::Removed => paint::print(&format!("removed {name}\n"))?,
            Removal::Failed(error) => {
                console::fail(&anyhow::Error::from(error).context(format!("cannot remove {name}")));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the key of a workspace's project. Errors: there is no such directory.
pub(crate) fn project_key(workspace: &Path) -> anyhow::Result<ProjectKey> {
    let real = workspace.canonicalize();
    let real = real.with_context(|| format!("no workspace '{}'", workspace.display()))?;
    Ok(Project::of(&real).key())
}

/// Returns whether a recorded project no longer exists. A directory that cannot be inspected may exist.
pub(crate) fn is_gone(project: Option<&Path>) -> bool {
    project.is_some_and(|root| matches!(root.try_exists(), Ok(false)))
}
