//! Objects of a repository in the workspace, whose git is not run.

use std::path::PathBuf;

use aifo_workspace::{Tree, has_git_object};

use crate::path::{as_path, join};
use crate::scope::REPOSITORY;

/// Returns whether the repository has an object: in a file of its own or in a pack. In doubt it
/// is missing.
pub(crate) fn has_object(tree: &Tree, id: &[u8]) -> bool {
    // A symbolic reference names another one, which has a row of its own.
    id.starts_with(b"ref: ") || std::str::from_utf8(id).is_ok_and(|id| has_git_object(tree, id))
}

/// Returns the path to a file in the repository.
pub(crate) fn repository_path(path: &[u8]) -> PathBuf {
    as_path(&join(REPOSITORY, path)).to_owned()
}
