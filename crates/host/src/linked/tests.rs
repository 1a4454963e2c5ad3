use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// A repository `main`, its linked worktree `linked`, its submodule `main/module`, and a hostile
/// workspace `evil`.
struct Repositories(PathBuf);

impl Repositories {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("aifo-linked-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for git in ["main/.git", "main/.git/modules/module"] {
            for directory in ["objects", "refs"] {
                fs::create_dir_all(path.join(git).join(directory)).unwrap();
            }
            fs::write(path.join(git).join("config"), "[core]\n\tbare = false\n").unwrap();
        }
        for directory in ["main/.git/worktrees/one", "main/module", "linked", "evil"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        let it = Repositories(path.canonicalize().unwrap());
        it.write(
            "linked/.git",
            &format!("gitdir: {}\n", it.at("main/.git/worktrees/one").display()),
        );
        let back = format!("{}\n", it.at("linked/.git").display());
        it.write("main/.git/worktrees/one/gitdir", &back);
        it.write("main/module/.git", "gitdir: ../.git/modules/module\n");
        it.write(MODULE_CONFIG, "[core]\n\tworktree = ../../../module\n[x]\n\tworktree = /\n");
        it
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).unwrap();
    }

    /// Returns the repository path, relative to the scratch directory.
    fn common(&self, workspace: &str) -> Result<Option<String>, String> {
        let found = linked_repository(&self.at(workspace))?;
        let relative = |it: LinkedRepository| it.common.strip_prefix(&self.0).unwrap().to_owned();
        Ok(found.map(|it| relative(it).display().to_string()))
    }

    #[track_caller]
    fn refused(&self, workspace: &str, reason: &str) {
        let error = self.common(workspace).unwrap_err();
        assert!(error.contains(reason) && !error.contains('\n'), "{error}");
    }
}

const MODULE_CONFIG: &str = "main/.git/modules/module/config";

impl Drop for Repositories {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_worktree_and_a_submodule_have_the_repository_that_names_them() {
    let it = Repositories::new("found");
    assert_eq!(it.common("linked"), Ok(Some("main/.git".into())));
    assert_eq!(it.common("main/module"), Ok(Some("main/.git/modules/module".into())));
    assert_eq!(it.common("main"), Ok(None));
    assert_eq!(it.common("evil"), Ok(None));
    it.write("linked/.git", "gitdir: ../main/.git/worktrees/one");
    it.write("main/.git/worktrees/one/gitdir", "../../../../linked/.git\n");
    assert_eq!(it.common("linked"), Ok(Some("main/.git".into())), "relative paths");
}

#[test]
fn a_forged_file_gets_no_directory() {
    let it = Repositories::new("forged");
    let other = it.at("main/.git/worktrees/one");
    let rows = [
        (other.display().to_string(), "does not name this workspace"),
        (it.at("main/.git").display().to_string(), "does not name this workspace"),
        (it.at(MODULE_CONFIG).parent().unwrap().display().to_string(), "does not name this"),
        ("/etc".into(), "does not name this workspace"),
        ("/etc/worktrees/x".into(), "No such file"),
        ("/".into(), "does not name this workspace"),
        (std::env::var("HOME").unwrap_or("/root".into()), "does not name this workspace"),
        ("/\nx".into(), "names no directory"),
    ];
    for (path, reason) in rows {
        it.write("evil/.git", &format!("gitdir: {path}\n"));
        it.refused("evil", reason);
    }
    // A claim that agents of both sides forged, over directories that no agent gets.
    let home = it.at("home");
    fs::create_dir_all(home.join("worktrees/x")).unwrap();
    fs::write(home.join("worktrees/x/gitdir"), it.at("evil/.git").display().to_string()).unwrap();
    it.write("evil/.git", &format!("gitdir: {}\n", home.join("worktrees/x").display()));
    it.refused("evil", "is not a repository");
}

#[test]
fn links_and_unsuitable_repositories_are_refused() {
    let it = Repositories::new("unsuitable");
    symlink(it.at("main"), it.at("link")).unwrap();
    it.write("linked/.git", &format!("gitdir: {}\n", it.at("link/.git/worktrees/one").display()));
    it.refused("linked", "leads through a link");
    it.write("linked/.git", "gitdir: ../main/.git/worktrees/one");

    let back = it.at("main/.git/worktrees/one/gitdir");
    fs::rename(&back, it.at("gitdir")).unwrap();
    symlink(it.at("gitdir"), &back).unwrap();
    it.refused("linked", "is a link");
    fs::remove_file(&back).unwrap();
    it.refused("linked", "does not exist");
    fs::rename(it.at("gitdir"), &back).unwrap();
    it.write("main/.git/config", "[core]\n\tworktree = /home\n");
    it.refused("linked", "sets 'core.worktree'");
    it.write("main/.git/config", &"#".repeat(300 << 10));
    it.refused("linked", "is too large");
    it.write("main/.git/config", "");
    assert_eq!(it.common("linked"), Ok(Some("main/.git".into())));
    fs::remove_dir(it.at("main/.git/refs")).unwrap();
    it.refused("linked", "is not a repository");

    for text in ["[core]\n\tworktree = \"../../../module\"\n", "[CORE]\nWorkTree=../../../module"] {
        it.write(MODULE_CONFIG, text);
        assert!(it.common("main/module").unwrap().is_some(), "{text}");
    }
    for text in ["", "[core]\n\tworktree = ../../../mod\\ule", "[core] worktree = ../../../module"]
    {
        it.write(MODULE_CONFIG, text);
        assert!(it.common("main/module").is_err(), "{text}");
    }
}
