//! The workspace's git repository in a sidecar (`spec/containers.md#repository`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use aifo_tests::{
    ContainerSetup, EVERY_TOOL, Engine, Outcome, Scratch, Signal, WITH_GIT, files_below,
};

/// Changes what git executes, below each of these roots, and prints each success. Undoes all but the
/// first.
const ATTACK: &str = r#"
import os, sys

def attempt(name, call):
    try:
        call()
        print(name)
    except OSError:
        pass

def write(path, mode="w"):
    with open(path, mode) as file:
        file.write("[core]\n\tfsmonitor = touch ran\n")

def replace(path):
    kept = open(path).read() if os.path.exists(path) else None
    write(path + ".new")
    try:
        os.rename(path + ".new", path)
    finally:
        if os.path.exists(path + ".new"):
            os.remove(path + ".new")
    if kept is None:
        os.remove(path)
    else:
        open(path, "w").write(kept)

def move(path):
    os.rename(path, path + "-moved")
    os.rename(path + "-moved", path)

for root in sys.argv[1:]:
    git = root + "/.git"
    attempt("append to config", lambda: write(git + "/config", "a"))
    attempt("move .git", lambda: move(git))
    attempt("link in place of .git", lambda: os.symlink("x", git))
    for name in ("config", "commondir", "config.worktree", "modules/sub/config", "hooks/pre-commit"):
        attempt("replace " + name, lambda: replace(git + "/" + name))
    for name in ("config", "hooks", "commondir", "config.worktree", "modules", "worktrees"):
        attempt("move " + name, lambda: move(git + "/" + name))
"#;

/// The successes without the mounts.
const WITHOUT_MOUNTS: &str = "\
append to config
move .git
replace config
replace commondir
replace config.worktree
replace modules/sub/config
replace hooks/pre-commit
move config
move hooks
move modules
";

/// Writes to the repository as `git add` and `git commit` do.
const COMMIT: &str = r#"
import os
os.makedirs(".git/objects/ab", exist_ok=True)
os.makedirs(".git/refs/heads/of", exist_ok=True)
for name in ("index", "HEAD", "objects/ab/cd", "refs/heads/of/tool", "COMMIT_EDITMSG"):
    kept = open(".git/" + name, "rb").read() if os.path.exists(".git/" + name) else b""
    with open(".git/" + name + ".lock", "wb") as file:
        file.write(kept)
    os.rename(".git/" + name + ".lock", ".git/" + name)
"#;

#[track_caller]
fn git(dir: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=it", "-c", "user.email=it@example.org"]).args(args);
    for name in ["GIT_CONFIG_COUNT", "GIT_DIR", "GIT_WORK_TREE"] {
        git.env_remove(name);
    }
    Outcome::of(git.current_dir(dir)).exited(0).text()
}

/// Creates a repository without hooks that has a submodule's directory.
#[track_caller]
fn init(dir: &Path) {
    git(dir, &["init", "--quiet", "--template="]);
    fs::create_dir_all(dir.join(".git/modules/sub")).unwrap();
    fs::write(dir.join("file"), "").unwrap();
    git(dir, &["add", "file"]);
    git(dir, &["commit", "--quiet", "--message", "one"]);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_tool_cannot_change_what_git_executes() {
    let Some(engine) = Engine::of_run("a_tool_cannot_change_what_git_executes") else { return };
    let project = Scratch::new();
    let dir = project.path();
    init(dir);
    let config = fs::read(dir.join(".git/config")).unwrap();
    let before = files_below(&dir.join(".git"));

    let session = ContainerSetup::of(&engine).kind("python").workspace(dir).start();
    let text = dir.to_str().unwrap();
    let python = |program: &str| {
        let mut shim = session.shim("python3");
        shim.args(["-c", program, "/workspace", text]).current_dir(dir);
        Outcome::of(&mut shim).exited(0).text()
    };
    assert_eq!(python(ATTACK), "");
    assert_eq!(fs::read(dir.join(".git/config")).unwrap(), config);
    // git on this machine and in the agent container works with the mount points.
    assert_eq!(git(dir, &["status", "--short"]), "");
    assert_eq!(git(dir, &["log", "--format=%s"]), "one\n");
    assert!(!dir.join("ran").exists());
    assert_eq!(python(COMMIT), "");
    session.finish();
    let removed: Vec<_> = before.iter().filter(|file| !file.exists()).collect();
    assert_eq!(removed, [""; 0].map(Path::new));
    for name in ["hooks", "commondir", "config.worktree"] {
        assert!(!dir.join(".git").join(name).exists(), "{name}");
    }

    let control = Scratch::new();
    let dir = control.path();
    init(dir);
    fs::create_dir(dir.join(".git/hooks")).unwrap();
    let mount = format!("type=bind,source={},destination=/workspace", dir.display());
    let run = ["run", "--rm", "--mount", &mount, EVERY_TOOL, "python3", "-c", ATTACK, "/workspace"];
    assert_eq!(engine.text(run), WITHOUT_MOUNTS);
    git(dir, &["status"]);
    assert!(dir.join("ran").exists(), "git executes the configuration");
}

/// `git config` replaces the file, which removes its mount from every container.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_configuration_that_git_replaced_is_protected_again() {
    let Some(engine) = Engine::of_run("a_configuration_that_git_replaced_is_protected_again")
    else {
        return;
    };
    let project = Scratch::new();
    let dir = project.path();
    init(dir);
    let session = ContainerSetup::of(&engine).kind("python").workspace(dir).start();
    let attack = || {
        let mut shim = session.shim("python3");
        shim.args(["-c", ATTACK, "/workspace"]).current_dir(dir);
        Outcome::of(&mut shim).exited(0).text()
    };
    assert_eq!(attack(), "");
    for _ in 0..2 {
        git(dir, &["config", "some.key", "value"]);
        git(dir, &["config", "some.key", "other"]);
        assert_eq!(attack(), "");
    }
    assert_eq!(session.log_lines(&["stopped, git replaced a mounted file"]).len(), 2);
    fs::rename(dir.join(".git"), dir.join("old")).unwrap();
    init(dir);
    assert_eq!(attack(), "");
    session.finish();
    assert!(!dir.join(".git/commondir").exists());
}

/// Writes the configuration as git does, and prints the error, as husky does.
const GIT_CONFIG: &str = r#"
import os
open(".git/config.lock", "x")
try:
    os.rename(".git/config.lock", ".git/config")
except OSError as error:
    os.remove(".git/config.lock")
    print(error.strerror)
"#;

/// A hint follows the failure, also if the tool succeeds.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_refused_write_of_configuration_or_hooks_is_followed_by_a_hint() {
    let test = "a_refused_write_of_configuration_or_hooks_is_followed_by_a_hint";
    let Some(engine) = Engine::of_run(test) else { return };
    let project = Scratch::new();
    let dir = project.path();
    init(dir);
    fs::write(dir.join("pre_commit.py"), "open('.git/hooks/pre-commit', 'w')").unwrap();
    let session = ContainerSetup::of(&engine).kind("python").workspace(dir).start();
    let call = |args: &[&str]| {
        let mut shim = session.shim("python3");
        Outcome::of(shim.args(args).current_dir(dir))
    };
    let commit = call(&["-c", COMMIT]);
    assert_eq!((commit.exited(0).text(), ""), (String::new(), &*commit.stderr));
    let config = call(&["-c", GIT_CONFIG]);
    assert_eq!(config.exited(0).text(), "Device or resource busy\n");
    let hint = "aifo-shim: hint: .git/config is read-only in sidecars; run git in the agent, \
                and programs that set up hooks outside of the session\n";
    assert_eq!(config.stderr, hint);
    // The hint of an earlier call is not repeated, and other failures have none.
    let failed = call(&["-c", "exit(1)"]);
    assert_eq!((failed.exited(1).text(), ""), (String::new(), &*failed.stderr));
    let hooks = call(&["-m", "pre_commit", "install"]);
    let hint = "Read-only file system: '.git/hooks/pre-commit'\naifo-shim: hint: .git/hooks is \
                read-only in sidecars; run this command outside of the session\n";
    assert!(hooks.exited(1).stderr.ends_with(hint), "{hooks:?}");
    // git outside of the sidecar writes the configuration while a call runs.
    let program = "import os, time\n\
                   while not os.path.exists('done'): time.sleep(0.01)";
    let mut shim = session.shim("python3");
    shim.args(["-c", program]).current_dir(dir);
    let mut running = shim.stderr(std::process::Stdio::piped()).spawn().unwrap();
    git(dir, &["config", "some.key", "value"]);
    fs::write(dir.join("done"), "").unwrap();
    assert!(running.wait().unwrap().success());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut running.stderr.take().unwrap(), &mut text).unwrap();
    assert_eq!(text, "");
    session.finish();
}

/// Makes git use another configuration, in ways that leave the repository's own as it is. Prints each
/// success, and undoes it.
const POINTERS: &str = r#"
attempt() { sh -c "$2" 2>/dev/null && echo "$1"; }
mkdir .evil && cp -r .git/objects .git/refs .git/HEAD .evil/
printf '[core]\n\tfsmonitor = touch ran\n' > .evil/config
for root in . /workspace; do
    attempt 'write commondir' "echo ../.evil > $root/.git/commondir"
    attempt 'replace commondir' "echo ../.evil > $root/.git/new && mv -f $root/.git/new $root/.git/commondir"
    attempt 'remove commondir' "rm -f $root/.git/commondir"
    attempt 'link commondir' "ln -sf ../.evil/config $root/.git/commondir"
    attempt 'move .git' "mv $root/.git $root/.kept && mv $root/.kept $root/.git"
    attempt 'exchange .git' "mv --exchange -T $root/.git $root/.evil"
    attempt 'file in place of .git' "rm -f $root/.git && echo gitdir: .evil > $root/.git"
done
rm -f .git/new
true
"#;

/// The daily git of an agent.
const DAILY: &str = r#"
set -e
git config user.name it && git config user.email it@example.org && git config --local alias.x status
git remote add origin https://example.org/x && git config --unset remote.origin.fetch
echo two > file && git commit --quiet --all --message two
git switch --quiet --create topic HEAD~1
echo three > other && git add other && git commit --quiet --message three
git rebase --quiet - && git switch --quiet - && git merge --quiet topic
echo x > file && git stash --quiet && git stash pop --quiet && git checkout --quiet file
git worktree add --quiet wt topic~1 2>/dev/null || git worktree add --quiet --detach wt
git -C wt status --short && git worktree remove wt
git tag one && git gc --quiet && git clone --quiet . /tmp/clone && git -C /tmp/clone log --format=%s -1
echo exit 0 > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit
git commit --quiet --allow-empty --message four && git fsck --no-progress --no-dangling && git log --format=%s -1
"#;

/// The agent's git writes configuration and hooks, which the end of the session names, but cannot make
/// git read others.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn an_agent_cannot_replace_what_leads_to_the_configuration() {
    let test = "an_agent_cannot_replace_what_leads_to_the_configuration";
    let Some(engine) = Engine::with_git(test) else { return };
    let agent = |dir: &Path, script: &str| {
        let containers = ContainerSetup::of(&engine).kind("python");
        let mut run = containers.command_in("run", dir);
        run.args(["--image", WITH_GIT, "--", "sh", "-c", script]).current_dir(dir);
        Outcome::of(&mut run)
    };
    let project = Scratch::new();
    let dir = project.path();
    init(dir);
    assert_eq!(agent(dir, POINTERS).exited(0).text(), "");
    git(dir, &["status"]);
    assert!(!dir.join("ran").exists() && !dir.join(".git/commondir").exists());

    let daily = agent(dir, DAILY);
    assert_eq!(daily.exited(0).text(), "three\nfour\n", "{daily:?}");
    assert_eq!(git(dir, &["log", "--format=%s"]), "four\nthree\ntwo\none\n");

    // A repository that the agent creates has no mounts.
    let new = Scratch::new();
    let outcome = agent(
        new.path(),
        &format!("git init --quiet && {POINTERS} echo ../.evil > .git/commondir"),
    );
    let line = "'.git/commondir' was changed in this session and leads git to another repository: it was removed\n";
    assert!(outcome.exited(0).stderr.contains(line), "{outcome:?}");
    assert!(outcome.stderr.contains("execute or obey them: .evil, .git\n"), "{outcome:?}");
    assert!(!new.path().join(".git/commondir").exists());

    // A worktree file, whose repository other workspaces share, and one of a repository in the root.
    git(dir, &["worktree", "add", "--quiet", "--detach", "wt"]);
    let file = "echo gitdir: x > .git || mv .git y || rm -f .git || echo held; git status --short";
    for (place, store) in [("wt", false), ("", true)] {
        let dir = dir.join(place);
        if store {
            fs::rename(dir.join(".git"), dir.join(".store")).unwrap();
            fs::write(dir.join(".git"), "gitdir: .store\n").unwrap();
        }
        let outcome = agent(&dir, file);
        assert!(outcome.exited(0).text().starts_with("held\n"), "{outcome:?}");
    }
}

/// Between two starts of a sidecar, the agent can put links into the workspace.
#[test]
#[ignore = "container: cargo xtask test docker"]
fn no_link_in_the_repository_chooses_what_is_mounted() {
    let Some(engine) = Engine::of_run("no_link_in_the_repository_chooses_what_is_mounted") else {
        return;
    };
    let (project, outside) = (Scratch::new(), Scratch::new());
    let dir = project.path();
    fs::write(outside.path().join("secret"), "").unwrap();
    let image = format!("python={EVERY_TOOL}");
    let setup = ContainerSetup::of(&engine).flag("--toolchain", "auto");
    let session = setup.flag("--toolchain-image", &image).workspace(dir).start();
    let seen = || {
        let program = "import os; print(os.path.exists('.git/secret'), \
                       os.path.exists('.git/hooks/secret'), os.access('.git', os.W_OK))";
        let mut shim = session.shim("python3");
        Outcome::of(shim.args(["-c", program]).current_dir(dir)).exited(0).text()
    };
    symlink(outside.path(), dir.join(".git")).unwrap();
    assert_eq!(seen(), "False False False\n");
    fs::remove_file(dir.join(".git")).unwrap();
    init(dir);
    symlink(outside.path(), dir.join(".git/hooks")).unwrap();
    assert_eq!(seen(), "False False False\n");
    assert_eq!(session.log_lines(&["its 'hooks' is a link"]).len(), 1);

    fs::remove_dir_all(dir.join(".git")).unwrap();
    fs::write(dir.join(".git"), "gitdir: /elsewhere\n").unwrap();
    assert_eq!(seen(), "False False False\n");
    let program = "import os; os.rename('.git', 'away')";
    let mut shim = session.shim("python3");
    let outcome = Outcome::of(shim.args(["-c", program]).current_dir(dir));
    assert!(outcome.exited(1).stderr.contains("Device or resource busy"), "{outcome:?}");
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn changed_project_files_are_reported_and_a_killed_sessions_mount_points_removed() {
    let test = "changed_project_files_are_reported_and_a_killed_sessions_mount_points_removed";
    let Some(engine) = Engine::of_run(test) else { return };
    let project = Scratch::new();
    let dir = project.path();
    init(dir);
    let setup = || ContainerSetup::of(&engine).kind("python").workspace(dir);
    let mut session = setup().start();
    let program = "import os; os.mkdir('.husky'); open('.husky/pre-commit', 'w'); \
                   open('.mcp.json', 'w'); open('source', 'w')";
    let mut shim = session.shim("python3");
    Outcome::of(shim.args(["-c", program]).current_dir(dir)).exited(0);
    session.end(Signal::SIGTERM);
    let log = session.log();
    assert!(log.contains("execute or obey them: .husky/pre-commit, .mcp.json\n"), "{log}");

    let mut session = setup().start();
    session.end(Signal::SIGKILL);
    assert!(dir.join(".git/commondir").exists());
    let mut cleanup = Command::new(&aifo_tests::binaries().coder);
    cleanup.args(["cleanup", session.id()]).env("XDG_RUNTIME_DIR", session.scratch().join("run"));
    let printed = Outcome::of(&mut cleanup).exited(0).text();
    assert!(printed.contains(&format!("mount-points {}", dir.display())), "{printed}");
    assert!(!dir.join(".git/commondir").exists() && !dir.join(".git/hooks").exists());
    session.sweep();
}
