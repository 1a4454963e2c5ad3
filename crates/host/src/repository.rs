//! The repository around a directory (`spec/cli.md#workspace`).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::{Mode, mkdirat},
    unistd::getuid,
};

use crate::linked::linked_repository;
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

/// Adds a name of aifo's own files to `.git/info/exclude` of the repository around a directory, if it
/// is missing there; of a linked worktree or submodule, to that file of its repository. Does nothing
/// without a repository. Follows no link, as an agent can write to `.git`. Errors: of the system, or the
/// repository does not name this worktree.
pub fn exclude(directory: &Path, name: &str) -> io::Result<()> {
    let Some(top) = top_level(&directory.canonicalize()?) else { return Ok(()) };
    let linked = linked_repository(&top).map_err(io::Error::other)?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let git = match open(&linked.map_or(top.join(".git"), |it| it.common), flags, Mode::empty()) {
        Err(Errno::ENOTDIR) => return Ok(()),
        git => git?,
    };
    match mkdirat(&git, "info", Mode::from_bits_truncate(0o755)) {
        Err(Errno::EEXIST) | Ok(()) => {}
        Err(errno) => return Err(errno.into()),
    }
    let info = openat(&git, "info", flags, Mode::empty())?;
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_APPEND;
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(&info, "exclude", flags, Mode::from_bits_truncate(0o644))?);
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 || found.len() > MAX_EXCLUDES {
        return Err(io::Error::other("not a small regular file with one name"));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    if text.split(|byte| *byte == b'\n').any(|line| line == name.as_bytes()) {
        return Ok(());
    }
    let separator = if text.is_empty() || text.ends_with(b"\n") { "" } else { "\n" };
    file.write_all(format!("{separator}{name}\n").as_bytes())
}

/// Larger files are not changed.
const MAX_EXCLUDES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_excluded_once_and_through_no_link() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        let git = base.join("repo/.git");
        fs::create_dir_all(&git).unwrap();
        fs::create_dir_all(base.join("repo/sub")).unwrap();
        exclude(base, ".swe-swe/").unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        for _ in 0..2 {
            exclude(&base.join("repo/sub"), ".swe-swe/").unwrap();
        }
        let file = git.join("info/exclude");
        assert_eq!(fs::read_to_string(&file).unwrap(), ".swe-swe/\n");
        fs::write(&file, "*.o").unwrap();
        exclude(&base.join("repo"), ".swe-swe/").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "*.o\n.swe-swe/\n");

        let target = base.join("target");
        fs::write(&target, "").unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&target, &file).unwrap();
        assert!(exclude(&base.join("repo"), ".swe-swe/").is_err(), "a link");
        fs::remove_file(&file).unwrap();
        fs::hard_link(&target, &file).unwrap();
        assert!(exclude(&base.join("repo"), ".swe-swe/").is_err(), "a second name");
        fs::remove_file(&file).unwrap();
        fs::remove_dir(git.join("info")).unwrap();
        std::os::unix::fs::symlink(base, git.join("info")).unwrap();
        assert!(exclude(&base.join("repo"), ".swe-swe/").is_err(), "a linked directory");
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
        assert!(!base.join("exclude").exists());
    }

    #[test]
    fn of_a_linked_worktree_the_common_file_excludes() {
        let base = std::env::temp_dir().join(format!("aifo-exclude-l-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let base = base.canonicalize().unwrap();
        let entry = base.join("main/.git/worktrees/one");
        for directory in ["main/.git/objects", "main/.git/refs", "main/.git/worktrees/one", "wt"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        fs::write(base.join("wt/.git"), format!("gitdir: {}\n", entry.display())).unwrap();
        assert!(exclude(&base.join("wt"), ".swe-swe/").is_err(), "not named by the repository");
        fs::write(entry.join("gitdir"), base.join("wt/.git").display().to_string()).unwrap();
        exclude(&base.join("wt"), ".swe-swe/").unwrap();
        let file = base.join("main/.git/info/exclude");
        assert_eq!(fs::read_to_string(file).unwrap(), ".swe-swe/\n");
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn the_top_level_is_the_default() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
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
    }
}
