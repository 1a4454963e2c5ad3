//! The repository around a directory (`spec/cli.md#workspace`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::getuid;

use crate::workspace_check::CheckedWorkspace;

/// Returns the workspace of a session that starts in a directory: the top level of its git
/// repository, or the directory itself without a repository, or if the top level cannot be a
/// workspace.
pub fn default_workspace(directory: &Path) -> PathBuf {
    let top = directory.canonicalize().ok().and_then(|real| top_level(&real));
    let top = top.filter(|top| CheckedWorkspace::new(top).is_ok());
    top.unwrap_or_else(|| directory.to_owned())
}

/// Returns the nearest directory upwards that has a `.git` of this user: a repository, or the file of
/// a linked worktree or submodule.
fn top_level(real: &Path) -> Option<PathBuf> {
    let is_top = |directory: &&Path| is_repository(directory);
    real.ancestors().find(is_top).map(Path::to_owned)
}

/// As git does, ignores repositories of other users.
fn is_repository(directory: &Path) -> bool {
    let git = directory.join(".git");
    let uid = getuid().as_raw();
    let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.uid() == uid);
    let Ok(found) = fs::symlink_metadata(&git) else { return false };
    let has_form = found.is_file() || found.is_dir() && git.join("HEAD").exists();
    has_form && is_own(&git) && is_own(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_level_is_the_default() {
        let base = std::env::temp_dir().join(format!("aifo-repository-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let base = base.canonicalize().unwrap();
        for directory in
            ["repo/.git", "repo/sub/deep", "repo/linked/sub", "empty/.git", "empty/sub"]
        {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        fs::write(base.join("repo/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(base.join("repo/linked/.git"), "gitdir: ../.git/worktrees/x\n").unwrap();
        let rows = [
            ("repo", "repo"),
            ("repo/sub/deep", "repo"),
            ("repo/linked/sub", "repo/linked"),
            ("empty/sub", "empty/sub"),
        ];
        for (directory, expected) in rows {
            assert_eq!(default_workspace(&base.join(directory)), base.join(expected));
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
