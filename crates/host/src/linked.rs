//! The repository outside of a workspace that the workspace belongs to, as a linked worktree or a
//! submodule (`spec/containers.md#linked-repositories`).

use std::path::{Path, PathBuf};

use aifo_sidecar::LinkedRepository;

use crate::claim::{Claim, configured_worktree};
use crate::session_dir::is_own;
use crate::workspace_check::{check_repository, is_system_directory};

/// Returns the linked repository that containers of a workspace, a real path, get. `None` if the
/// workspace's `.git` is no file, or names a directory in the workspace. Errors: the reason why
/// containers do not get it, in one line.
pub fn linked_repository(workspace: &Path) -> Result<Option<LinkedRepository>, String> {
    let Some(claim) = Claim::of(workspace)? else { return Ok(None) };
    let LinkedRepository { common, worktree } = &claim.repository;
    if common.starts_with(workspace) {
        return Ok(None);
    }
    let shown = common.display();
    if claim.named != claim.directory {
        return Err(format!("'{}' leads through a link", claim.named.display()));
    }
    if workspace.starts_with(common) {
        return Err(format!("the workspace is in the repository's directory '{shown}'"));
    }
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    check_repository(common).map_err(|error| first_line(error.to_string()))?;
    if is_system_directory(common) {
        return Err(format!("'{shown}' is a system directory"));
    }
    if !is_own(common) || !is_own(&claim.directory) {
        return Err(format!("'{shown}' is not your directory"));
    }
    if !is_own(&common.join("objects")) || !is_own(&common.join("refs")) {
        return Err(format!("'{shown}' is not a repository"));
    }
    let named = |name| configured_worktree(&common.join(name));
    if worktree.is_some() && (named("config")?.is_some() || named("config.worktree")?.is_some()) {
        return Err(format!("the configuration of '{shown}' sets 'core.worktree'"));
    }
    Ok(Some(claim.repository))
}

/// Returns where the repository of a workspace is: a directory to open, and the path of the git directory in it. A linked worktree has that
/// of its main repository.
pub fn repository_below(workspace: &Path) -> (PathBuf, &'static str) {
    match linked_repository(workspace) {
        Ok(Some(linked)) => (linked.common, ""),
        _ => (workspace.to_owned(), ".git"),
    }
}

#[cfg(test)]
mod tests;
