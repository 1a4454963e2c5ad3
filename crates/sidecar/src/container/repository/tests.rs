use std::fs;
use std::os::unix::fs::symlink;

use nix::fcntl::{Flock, FlockArg};

use super::mount_points::git_directory;
use super::*;

fn create(workspace: &Path) -> Option<MountPoints> {
    MountPoints::create(&RepositoryPlace::Workspace(workspace.to_owned()))
}

/// A workspace with a repository as `git init` creates it, without its template's hooks.
fn workspace() -> tempfile::TempDir {
    let workspace = tempfile::tempdir().unwrap();
    let git = workspace.path().join(".git");
    fs::create_dir(&git).unwrap();
    fs::write(git.join(CONFIG), "[core]\n\tbare = false\n").unwrap();
    workspace
}

/// The mounted paths, the writable ones with a `+`.
fn mounted(workspace: &Path) -> Vec<String> {
    mounted_for(workspace, Recipient::Tools)
}

fn mounted_for(workspace: &Path, recipient: Recipient) -> Vec<String> {
    let found = Repository::find(workspace, None, recipient);
    let entries = found.entries.iter();
    let sign = |entry: &Entry| if entry.read_only { "" } else { "+" };
    entries.map(|entry| format!("{}{}", sign(entry), entry.path.display())).collect()
}

fn names(directory: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn mount_points_exist_as_long_as_a_session_uses_them() {
    let dir = workspace();
    let (workspace, git) = (dir.path(), dir.path().join(".git"));
    assert_eq!(mounted(workspace), [".git"], "read-only as a whole, without mount points");
    let one = create(workspace).unwrap();
    let protected =
        ["+.git", ".git/config", ".git/hooks", ".git/commondir", ".git/config.worktree"];
    assert_eq!(mounted(workspace), protected);
    assert_eq!(mounted_for(workspace, Recipient::Agent), ["+.git", ".git/commondir"]);
    let two = create(workspace).unwrap();
    drop(one);
    assert_eq!(mounted(workspace), protected);
    drop(two);
    assert_eq!(names(&git), ["config"]);

    // A killed session leaves its mount points to the next.
    let mut killed = create(workspace).unwrap();
    drop(killed.lock.take());
    std::mem::forget(killed);
    assert_eq!(mounted(workspace), protected);
    fs::write(git.join("hooks/pre-commit"), "").unwrap();
    drop(create(workspace));
    assert_eq!(names(&git), ["config", "hooks"]);
    for name in OPTIONAL {
        fs::create_dir(git.join(name)).unwrap();
    }
    let _points = create(workspace).unwrap();
    assert_eq!(mounted(workspace)[5..], [".git/modules", ".git/worktrees"]);
}

#[test]
fn a_repository_that_cannot_be_protected_is_read_only() {
    type Change = fn(&Path);
    let changes: [Change; 7] = [
        |git| fs::remove_file(git.join(CONFIG)).unwrap(),
        |git| symlink("/etc/passwd", git.join(HOOKS)).unwrap(),
        |git| symlink("/etc", git.join("modules")).unwrap(),
        |git| fs::write(git.join(COMMON_DIR), "../other\n").unwrap(),
        |git| symlink("elsewhere", git.join(COMMON_DIR)).unwrap(),
        |git| fs::write(git.join(CONFIG), "[core]\n\tbare = true\n").unwrap(),
        |git| fs::write(git.join(CONFIG), "[core]\n\tworkTree = /elsewhere\n").unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let dir = workspace();
        change(&dir.path().join(".git"));
        let before = names(&dir.path().join(".git"));
        let points = create(dir.path());
        assert_eq!(mounted(dir.path()), [".git"], "{number}");
        assert!(Repository::find(dir.path(), None, Recipient::Tools).problem.is_some(), "{number}");
        let of_agent = Repository::find(dir.path(), None, Recipient::Agent);
        assert_eq!(of_agent.problem, None, "{number}");
        assert!(!of_agent.entries[0].read_only, "{number}");
        let is_common_dir = |entry: &Entry| entry.path.ends_with(COMMON_DIR) && entry.read_only;
        assert!(of_agent.entries[1..].iter().all(is_common_dir), "{number}");
        drop(points);
        assert_eq!(names(&dir.path().join(".git")), before, "{number}");
    }
}

#[test]
fn a_link_is_not_followed_and_a_file_may_name_a_directory_of_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let git = dir.path().join(".git");
    assert_eq!(mounted(dir.path()), [""; 0], "no repository");
    assert!(create(dir.path()).is_none());
    symlink("/etc", &git).unwrap();
    assert_eq!(mounted(dir.path()), [""; 0]);
    assert!(Repository::find(dir.path(), None, Recipient::Tools).problem.unwrap().contains("link"));
    fs::remove_file(&git).unwrap();

    fs::write(&git, "gitdir: /elsewhere/.git/worktrees/one\n").unwrap();
    assert_eq!(mounted(dir.path()), [".git"]);
    fs::write(&git, "gitdir: ./.store\n").unwrap();
    fs::create_dir(dir.path().join(".store")).unwrap();
    fs::write(dir.path().join(".store/config"), "").unwrap();
    let _points = create(dir.path()).unwrap();
    assert_eq!(mounted(dir.path())[..3], [".git", "+.store", ".store/config"]);
    let of_agent = mounted_for(dir.path(), Recipient::Agent);
    assert_eq!(of_agent, [".git", "+.store", ".store/commondir"]);
}

#[test]
fn a_lock_of_a_tool_does_not_block_the_launcher() {
    let dir = workspace();
    let git = git_directory(dir.path()).unwrap();
    let _lock = Flock::lock(git, FlockArg::LockExclusiveNonblock).unwrap();
    assert!(create(dir.path()).is_none());
    assert_eq!(mounted(dir.path()), [".git"], "read-only as a whole");
}

#[test]
fn a_replaced_file_is_noticed() {
    let dir = workspace();
    let git = dir.path().join(".git");
    let _points = create(dir.path());
    let found = Repository::find(dir.path(), None, Recipient::Tools);
    fs::write(git.join(CONFIG), "[core]\n").unwrap();
    assert!(found.is_current(), "written in place, as the mount is");
    // The second one could get the inode number of the first.
    for _ in 0..2 {
        fs::write(git.join("config.lock"), "[core]\n").unwrap();
        fs::rename(git.join("config.lock"), git.join(CONFIG)).unwrap();
        assert!(!found.is_current());
    }
    let found = Repository::find(dir.path(), None, Recipient::Tools);
    fs::create_dir(git.join("modules")).unwrap();
    assert!(!found.is_current());
}

#[test]
fn the_runner_expects_the_files_that_were_checked() {
    let dir = workspace();
    let (found, alias) =
        (Repository::find(dir.path(), None, Recipient::Tools), Path::new("/workspace"));
    let metadata = dir.path().join(".git").metadata().unwrap();
    let id = format!("{}:{}", metadata.dev(), metadata.ino());
    let own = dir.path().join(".git");
    let expected = [format!("{id}:/workspace/.git"), format!("{id}:{}", own.display())];
    let words = found.expectations(alias, dir.path());
    assert_eq!(words, ["--expect", &expected[0], "--expect", &expected[1]]);
    let mounts: Vec<_> = found.mounts(alias, dir.path()).collect();
    assert_eq!(mounts, [Mount::bind(&own, "/workspace/.git", true), Mount::bind(&own, &own, true)]);
}

#[test]
fn of_a_linked_repository_only_the_own_worktree_is_writable() {
    let dir = workspace();
    let common = dir.path().join(".git");
    fs::create_dir_all(common.join("worktrees/one")).unwrap();
    for name in ["gitdir", COMMON_DIR] {
        fs::write(common.join("worktrees/one").join(name), "x").unwrap();
    }
    fs::write(common.join(CONFIG), "[core]\n\tbare = true\n").unwrap();
    let linked = LinkedRepository { common: common.clone(), worktree: Some("one".into()) };
    let place = RepositoryPlace::Linked(linked.clone());
    let mounts = || -> Vec<_> {
        let found = Repository::linked(&linked);
        let mounts = found.mounts(Path::new("/workspace"), Path::new("/elsewhere"));
        let shown = |mount| match mount {
            Mount::Bind { to, read_only, .. } => {
                let below = to.strip_prefix(&common).unwrap().display().to_string();
                format!("{}{below}", if read_only { "" } else { "+" })
            }
            other => panic!("{other:?}"),
        };
        mounts.map(shown).collect()
    };
    assert_eq!(mounts(), [""], "read-only as a whole, without mount points");
    let points = MountPoints::create(&place).unwrap();
    let expected = [
        "+",
        CONFIG,
        HOOKS,
        COMMON_DIR,
        WORKTREE_CONFIG,
        "worktrees",
        "+worktrees/one",
        "worktrees/one/gitdir",
        "worktrees/one/commondir",
        "worktrees/one/config.worktree",
    ];
    assert_eq!(mounts(), expected);
    drop(points);
    assert_eq!(names(&common), ["config", "worktrees"]);
    assert_eq!(names(&common.join("worktrees/one")), ["commondir", "gitdir"]);

    fs::rename(common.join("worktrees/one"), common.join("worktrees/two")).unwrap();
    let _points = MountPoints::create(&place).unwrap();
    assert_eq!(mounts(), [""], "the worktree was removed");
}
