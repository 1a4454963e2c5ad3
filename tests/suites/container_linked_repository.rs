//! Worktrees and submodules as workspaces: git works in the agent container, with a configuration and
//! hooks that it cannot change (`spec/containers.md#linked-repositories`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{ContainerSetup, Engine, Outcome, Scratch, WITH_GIT, files_below};

#[track_caller]
fn git(dir: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    let settings = ["user.name=it", "user.email=it@example.org", "protocol.file.allow=always"];
    git.args(settings.iter().flat_map(|setting| ["-c", setting])).args(args);
    for name in ["GIT_CONFIG_COUNT", "GIT_DIR", "GIT_WORK_TREE"] {
        git.env_remove(name);
    }
    Outcome::of(git.current_dir(dir)).exited(0).text()
}

/// A repository `main` with a commit, its worktree `wt`, its submodule `main/module`, and `other`, with
/// which neither has to do.
struct Repositories(Scratch);

impl Repositories {
    #[track_caller]
    fn new() -> Self {
        let it = Repositories(Scratch::new());
        for name in ["library", "main", "other"] {
            fs::create_dir(it.at(name)).unwrap();
            git(&it.at(name), &["init", "--quiet", "--template="]);
            git(&it.at(name), &["commit", "--quiet", "--allow-empty", "--message", "one"]);
        }
        let library = it.at("library");
        let add = ["submodule", "--quiet", "add", library.to_str().unwrap(), "module"];
        git(&it.at("main"), &add);
        git(&it.at("main"), &["commit", "--quiet", "--message", "two"]);
        git(&it.at("main"), &["worktree", "add", "--quiet", "../wt"]);
        it
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }
}

/// Runs a shell script as the agent in a workspace.
#[track_caller]
fn agent(engine: &Engine, workspace: &Path, script: &str) -> Outcome {
    let containers = ContainerSetup::of(engine).kind("python");
    let mut run = containers.command_in("run", workspace);
    run.args(["--image", WITH_GIT, "--", "sh", "-c", script]).current_dir(workspace);
    Outcome::of(&mut run)
}

const COMMIT: &str = "git config --get core.bare; git status --short; echo x > file && git add file && \
                      git -c user.name=it -c user.email=it@example.org commit --quiet --message three && \
                      git log --format=%s -1 && git stash list && git branch new && git branch -d new";

/// Prints each success.
const ATTACK: &str = r#"
attempt() { sh -c "$2" 2>/dev/null && echo "$1"; }
git=$(git rev-parse --git-common-dir)
own=$(git rev-parse --git-dir)
attempt 'append to config' "echo >> $git/config"
attempt 'git config' 'git config core.fsmonitor x'
attempt 'replace config' "cp $git/config $git/new && mv -f $git/new $git/config"
attempt 'config.worktree' "echo x > $git/config.worktree"
attempt 'commondir' "rm -f $git/commondir || echo x > $git/commondir"
attempt 'hook' "echo x > $git/hooks/pre-commit"
attempt 'move hooks' "mv $git/hooks $git/hooks2"
attempt 'move git' "mv $git $git-2"
attempt 'modules' "mkdir -p $git/modules && echo x > $git/modules/x"
attempt 'another worktree' "mkdir $git/worktrees && rmdir $git/worktrees || mkdir $git/worktrees/x"
case $own in */worktrees/*)
    attempt 'gitdir' "echo x > $own/gitdir"
    attempt 'commondir of the worktree' "echo x > $own/commondir"
esac
rm -f "$git/new"
true
"#;

#[test]
#[ignore = "container: cargo xtask test docker"]
fn git_works_in_a_worktree_and_in_a_submodule() {
    let Some(engine) = Engine::with_git("git_works_in_a_worktree_and_in_a_submodule") else {
        return;
    };
    let it = Repositories::new();
    let before = files_below(&it.at("main/.git"));
    for workspace in ["wt", "main/module"] {
        let outcome = agent(&engine, &it.at(workspace), COMMIT);
        let text = outcome.exited(0).text();
        assert!(text.contains("\nthree\nDeleted branch new"), "{workspace}: {text}");
        assert!(!outcome.stderr.contains("git does not work"), "{}", outcome.stderr);
        assert_eq!(git(&it.at(workspace), &["log", "--format=%s", "-1"]), "three\n");
        assert_eq!(git(&it.at(workspace), &["status", "--short"]), "");
    }
    let created = files_below(&it.at("main/.git"));
    let names = ["commondir", "config.worktree", "hooks"];
    let created = created.iter().filter(|path| !before.contains(path));
    let left = created.filter(|path| names.iter().any(|name| path.ends_with(name)));
    assert_eq!(left.collect::<Vec<_>>(), [""; 0].map(Path::new), "no mount point is left");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_agent_and_its_tools_cannot_change_what_git_executes() {
    let test = "an_agent_and_its_tools_cannot_change_what_git_executes";
    let Some(engine) = Engine::with_git(test) else { return };
    let it = Repositories::new();
    // A submodule without submodules and worktrees of its own has no such directories to protect.
    for (workspace, expected) in [("wt", ""), ("main/module", "modules\nanother worktree\n")] {
        let outcome = agent(&engine, &it.at(workspace), ATTACK);
        assert_eq!(outcome.exited(0).text(), expected, "{workspace}");
    }
    // The same in a sidecar.
    let program = "import os, sys\n\
                   for path in sys.argv[1:]:\n\
                   \x20   try: open(path, 'a').close(); print(path)\n\
                   \x20   except OSError: pass\n";
    let common = it.at("main/.git");
    let files = ["config", "hooks/x", "commondir", "config.worktree", "worktrees/wt/gitdir"];
    let mut paths: Vec<_> = files.map(|file| common.join(file).display().to_string()).to_vec();
    let object = common.join("objects/x").display().to_string();
    paths.push(object.clone());
    let session = ContainerSetup::of(&engine).kind("python").workspace(&it.at("wt")).start();
    let mut shim = session.shim("python3");
    let outcome = Outcome::of(shim.args(["-c", program]).args(&paths).current_dir(it.at("wt")));
    assert_eq!(outcome.exited(0).text(), format!("{object}\n"), "a tool can write objects only");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_forged_git_file_mounts_nothing() {
    let Some(engine) = Engine::with_git("a_forged_git_file_mounts_nothing") else { return };
    let it = Repositories::new();
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
    let targets = [
        it.at("other/.git").display().to_string(),
        it.at("main/.git/worktrees/wt").display().to_string(),
    ];
    for target in targets.into_iter().chain(["/etc".into(), home]) {
        let workspace = Scratch::new();
        fs::write(workspace.path().join(".git"), format!("gitdir: {target}\n")).unwrap();
        let script =
            format!("ls -A {target}/HEAD {target}/hostname 2>&1 | grep -v 'o such file'; true");
        let outcome = agent(&engine, workspace.path(), &script);
        let seen = outcome.exited(0).text();
        assert!(!seen.contains("HEAD"), "{target}: {seen}");
        let line = format!(
            "git does not work in this workspace in containers: '{target}' does not name this workspace"
        );
        assert_eq!(outcome.stderr.matches(&line).count(), 1, "{}", outcome.stderr);
    }
}
