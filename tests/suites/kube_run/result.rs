//! The result branch of a session in a cluster (`spec/kubernetes.md#the-result-branch`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aifo_tests::{
    Outcome, Signal, Terminal, eventually, eventually_within, send_signal, write_executable,
};

use super::{Cluster, LEAVE};

const GIT: [&str; 6] =
    ["-c", "user.name=agent", "-c", "user.email=agent@example", "-c", "core.fsmonitor=false"];
/// The agent's own git, which gets no variables of this machine.
const COMMIT: &str = "git -c user.name=agent -c user.email=a@example commit --quiet";

#[track_caller]
fn git(at: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(GIT).args(words).current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null");
    Outcome::of(git.env("GIT_CONFIG_NOSYSTEM", "1")).exited(0).text().trim_end().to_owned()
}

impl Cluster {
    /// A cluster with a repository to clone.
    fn with_origin(script: &str) -> Self {
        let cluster = Cluster::with_agent(script);
        let origin = cluster.directory.join("origin");
        fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(origin.join("file"), "before").unwrap();
        git(&origin, &["add", "."]);
        git(&origin, &["commit", "--quiet", "-m", "start"]);
        cluster
    }

    fn run_clone(&self, flags: &[&str]) -> Command {
        self.run_in(&[&["--git", "https://git.example/p.git"], flags].concat())
    }

    fn results(&self) -> Vec<PathBuf> {
        let state = self.setup.scratch().join("home/.local/state/aifo/results");
        fs::read_dir(state).map_or(Vec::new(), |all| all.flatten().map(|it| it.path()).collect())
    }

    /// The only result, and the name of its branch.
    #[track_caller]
    fn result(&self) -> (PathBuf, String) {
        let [result] = self.results().try_into().unwrap();
        let id = result.file_stem().unwrap().to_str().unwrap().to_owned();
        (result, format!("aifo/{id}"))
    }
}

#[test]
fn commits_and_files_of_a_clone_come_to_this_machine() {
    let script = format!("echo one > file; {COMMIT} -am agent; echo two > more; exit 4");
    let cluster = Cluster::with_origin(&script);
    let terminal = Terminal::sized(200, 24);
    let run = terminal.start(&cluster.run_clone(&[]));
    assert_eq!(run.finish(), Ok(4), "{}", terminal.shown());
    terminal.expect("2 commits on branch aifo/").expect("the last with the uncommitted files");
    terminal.expect("fetch it with: git fetch ");
    let (result, branch) = cluster.result();
    let user = cluster.setup.scratch().join("user");
    git(&cluster.directory, &["clone", "--quiet", "origin", user.to_str().unwrap()]);
    git(&user, &["fetch", "--quiet", result.to_str().unwrap(), &format!("{branch}:{branch}")]);
    assert_eq!(git(&user, &["log", "--format=%s", &format!("{branch}~1")]), "agent\nstart");
    assert_eq!(git(&user, &["show", &format!("{branch}:more")]), "two");
    assert!(!cluster.read("deleted").is_empty(), "the pod is deleted");

    let listed = Outcome::of(&mut cluster.on_pods(&["sessions"]));
    assert!(listed.exited(0).stderr.contains(": git fetch "), "{}", listed.stderr);
    let kept = Outcome::of(&mut cluster.on_pods(&["cleanup"]));
    assert!(
        kept.exited(0).stderr.contains("is kept; fetch it with: git fetch "),
        "{}",
        kept.stderr
    );
    let id = branch.strip_prefix("aifo/").unwrap();
    let removed = Outcome::of(&mut cluster.on_pods(&["cleanup", &id[..8]]));
    assert_eq!(removed.exited(0).text(), format!("removed the result of session {id}\n"));
    assert!(cluster.results().is_empty());
}

#[test]
fn a_clone_without_work_is_reported() {
    let cluster = Cluster::with_origin("exit 0");
    let terminal = Terminal::sized(160, 24);
    let run = terminal.start(&cluster.run_clone(&[]));
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    terminal.expect("has no new commits and no uncommitted files");
    assert!(cluster.results().is_empty() && !cluster.read("deleted").is_empty());
}

#[test]
fn a_client_that_leaves_fetches_and_others_fetch_by_hand() {
    let script = format!(
        "echo one > file; {COMMIT} -am one; echo begin; read -r w; {COMMIT} --amend -m $w; exit 0"
    );
    let cluster = Cluster::with_origin(&script);
    let terminal = Terminal::sized(160, 24);
    let run = terminal.start(&cluster.run_clone(&[]));
    terminal.expect("begin");
    terminal.press(LEAVE);
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    terminal.expect("1 commit on branch");
    let (result, branch) = cluster.result();
    let subject = |name: &str| git(&result, &["--git-dir", ".", "log", "-1", "--format=%s", name]);
    assert_eq!(subject(&branch), "one");
    fs::write(cluster.directory.join("files/new"), "x").unwrap();
    let fetched = Outcome::of(&mut cluster.coder(&["kube", "fetch"]));
    assert!(fetched.exited(0).stderr.contains("2 commits"), "{}", fetched.stderr);
    assert!(subject(&branch).starts_with("Uncommitted files of session "));
    assert!(cluster.read("deleted").is_empty(), "the session continues");
    let terminal = Terminal::sized(160, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach"]));
    terminal.expect("begin");
    terminal.press("two\r");
    assert_eq!(attach.finish(), Ok(0), "{}", terminal.shown());
    assert_eq!(subject(&format!("{branch}~1")), "two");
}

#[test]
fn a_pod_is_kept_until_its_commits_are_fetched() {
    let cluster = Cluster::with_origin(&format!("echo one > file; {COMMIT} -am agent; exit 6"));
    // The stream of a pod that was evicted.
    cluster.put("cut-result", "300");
    let terminal = Terminal::sized(200, 24);
    let run = terminal.start(&cluster.run_clone(&[]));
    assert_eq!(run.finish(), Ok(6), "{}", terminal.shown());
    terminal.expect("cannot fetch the commits of session ").expect("its pod is kept");
    assert!(cluster.results().is_empty() && cluster.read("deleted").is_empty());
    eventually("the pod waits", || cluster.directory.join("tmp/aifo-ended").exists());
    let listed = Outcome::of(&mut cluster.on_pods(&["sessions"])).exited(0).text();
    assert!(
        listed.contains("waits: the agent has ended; get its work with: aifo-coder kube fetch")
    );
    let cleaned = Outcome::of(&mut cluster.on_pods(&["cleanup"]));
    assert!(cleaned.exited(0).stderr.contains("waits: the agent has ended"), "{}", cleaned.stderr);
    fs::remove_file(cluster.directory.join("cut-result")).unwrap();
    Outcome::of(&mut cluster.coder(&["kube", "fetch"])).exited(0);
    let (result, branch) = cluster.result();
    assert_eq!(git(&result, &["--git-dir", ".", "log", "--format=%s", &branch]), "agent\nstart");
    assert!(!cluster.read("deleted").is_empty(), "the session has ended");
}

/// Commits are fetched only when the references have changed.
#[test]
fn an_eviction_loses_only_the_commits_since_the_last_fetch() {
    let script = format!("echo one > file; {COMMIT} -am agent; echo begin; read -r word");
    let clone = Cluster::with_origin(&script);
    let upload = Cluster::with_agent(&script);
    let here = upload.setup.workspace().to_owned();
    git(&here, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(here.join("file"), "before").unwrap();
    git(&here, &["add", "."]);
    git(&here, &["commit", "--quiet", "-m", "start"]);
    let runs = [(&clone, clone.run_clone(&[])), (&upload, upload.run_in(&[]))];
    let runs = runs.map(|(cluster, run)| {
        let terminal = Terminal::sized(200, 24);
        let run = terminal.start(&run);
        (cluster, terminal, run)
    });
    for (cluster, terminal, run) in runs {
        terminal.expect("begin");
        let calls = |action: &str| {
            let calls = cluster.read("calls");
            calls.lines().filter(|call| call.ends_with(&format!(" _workspace {action}"))).count()
        };
        eventually_within(Duration::from_secs(180), "the pod is asked again", || {
            calls("references") >= 2
        });
        assert_eq!(calls("result"), 1, "the references are the same");
        cluster.put("status", EVICTED);
        for word in ["_pod", "--held", "_relay"] {
            cluster.processes(word).into_iter().for_each(|pid| send_signal(pid, Signal::SIGKILL));
        }
        assert_eq!(run.finish(), Ok(125), "{}", terminal.shown());
        terminal.expect("since the last fetch are lost").expect("1 commit on branch aifo/");
        terminal.expect("fetch it with: git fetch ");
        let (result, branch) = cluster.result();
        let log = git(&result, &["--git-dir", ".", "log", "--format=%s", &branch]);
        assert_eq!(log, "agent\nstart");
        assert!(!cluster.read("deleted").is_empty());
    }
}

const EVICTED: &str = r#"{"phase":"Failed","reason":"Evicted","message":"low on memory"}"#;

#[test]
fn commits_in_an_upload_are_a_branch_beside_the_files() {
    let cluster =
        Cluster::with_agent(&format!("echo after > file; {COMMIT} -am agent; echo new > new"));
    let here = cluster.setup.workspace().to_owned();
    git(&here, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(here.join("file"), "before").unwrap();
    git(&here, &["add", "."]);
    git(&here, &["commit", "--quiet", "-m", "start"]);
    let head = git(&here, &["rev-parse", "HEAD"]);
    let terminal = Terminal::sized(200, 24);
    let run = terminal.start(&cluster.run_in(&[]));
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    terminal.expect("2 files written").expect("1 commit on branch aifo/");
    assert_eq!(fs::read_to_string(here.join("file")).unwrap(), "after\n");
    assert_eq!(git(&here, &["for-each-ref", "--format=%(objectname)"]), head, "it is not changed");
    let (result, branch) = cluster.result();
    git(&here, &["fetch", "--quiet", result.to_str().unwrap(), &format!("{branch}:{branch}")]);
    assert_eq!(git(&here, &["log", "--format=%s", &branch]), "agent\nstart");
    assert_eq!(git(&here, &["ls-tree", "--name-only", &branch]), "file");
}

#[test]
fn without_a_trusted_git_the_result_is_a_bundle() {
    let cluster = Cluster::with_origin(&format!("echo one > file; {COMMIT} -am agent; exit 0"));
    Outcome::of(&mut cluster.run_clone(&["--detach"])).exited(0);
    eventually("the agent has ended", || cluster.has_unread_end());
    let mut fetch = cluster.coder(&["kube", "fetch"]);
    // The workspace's git is not trusted.
    let bin = cluster.setup.workspace().join("bin");
    fs::create_dir(&bin).unwrap();
    write_executable(bin.join("git"), "#!/bin/sh\nexit 9\n", 0o755);
    let tools = cluster.setup.scratch().join("few-tools");
    fs::create_dir(&tools).unwrap();
    for name in ["sh", "cat", "sed", "grep", "sleep", "env", "head"] {
        std::os::unix::fs::symlink(format!("/bin/{name}"), tools.join(name)).unwrap();
    }
    let path =
        [cluster.directory.as_path(), &bin, &tools].map(|it| it.display().to_string()).join(":");
    fetch.env("PATH", path).env("AIFO_POD_PATH", std::env::var_os("PATH").unwrap());
    let fetched = Outcome::of(&mut fetch);
    let stderr = &fetched.exited(0).stderr;
    assert!(
        stderr.contains("a bundle that is not checked: ")
            && stderr.contains("not a trusted program"),
        "{stderr}"
    );
    let (result, branch) = cluster.result();
    assert_eq!(result.extension().unwrap(), "bundle");
    let user = cluster.setup.scratch().join("user");
    git(&cluster.directory, &["clone", "--quiet", "origin", user.to_str().unwrap()]);
    git(&user, &["fetch", "--quiet", result.to_str().unwrap(), &format!("{branch}:{branch}")]);
    assert_eq!(git(&user, &["log", "-1", "--format=%s", &branch]), "agent");
}

#[test]
fn the_result_is_pushed_without_a_client() {
    let script = format!("echo one > file; {COMMIT} -am agent; echo two > more; exit 0");
    let cluster = Cluster::with_origin(&script);
    let remote = cluster.directory.join("remote.git");
    git(&cluster.directory, &["clone", "--quiet", "--bare", "origin", "remote.git"]);
    cluster.put("push-url", remote.to_str().unwrap());
    let id = Outcome::of(&mut cluster.run_clone(&["--git-push", "--detach"])).exited(0).text();
    let branch = format!("aifo/{}", id.trim_end());
    eventually("it is pushed", || cluster.directory.join("tmp/aifo-push").exists());
    assert_eq!(git(&remote, &["log", "--format=%s", &format!("{branch}~1")]), "agent\nstart");
    assert_eq!(git(&remote, &["show", &format!("{branch}:more")]), "two");
    let terminal = Terminal::sized(160, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach"]));
    assert_eq!(attach.finish(), Ok(0), "{}", terminal.shown());
    terminal.expect(&format!("pushed {branch} to "));
    assert!(!cluster.read("deleted").is_empty());
}

#[test]
fn a_push_that_fails_is_reported_and_its_result_is_fetched() {
    let cluster = Cluster::with_origin(&format!("echo one > file; {COMMIT} -am agent; exit 5"));
    cluster.put("push-url", "/nonexistent/p.git");
    let terminal = Terminal::sized(240, 24);
    let run = terminal.start(&cluster.run_clone(&["--git-push"]));
    assert_eq!(run.finish(), Ok(5), "{}", terminal.shown());
    terminal.expect("cannot push aifo/").expect("the remote repository cannot be reached");
    terminal.expect("fetch it with: git fetch ");
    let (result, branch) = cluster.result();
    assert_eq!(git(&result, &["--git-dir", ".", "log", "-1", "--format=%s", &branch]), "agent");
}

#[test]
fn a_clone_is_tried_again_while_the_network_does_not_work() {
    let cluster = Cluster::new();
    let clone = |script: &str| {
        let git = cluster.directory.join("flaky-git");
        write_executable(
            git.clone(),
            format!("#!/bin/sh\ncd '{}'\n{script}", cluster.directory.display()),
            0o755,
        );
        Outcome::of(&mut cluster.coder(&["_clone", git.to_str().unwrap(), "clone"]))
    };
    let script = "[ -e tried ] && exit; : >tried\n\
        echo \"fatal: unable to access 'u': Could not resolve host: g\" >&2; exit 128\n";
    let run = clone(script);
    assert!(run.exited(0).stderr.contains("does not work yet, trying for 30 s"), "{}", run.stderr);
    let run = clone("echo x >>runs; echo 'fatal: Authentication failed' >&2; exit 128\n");
    assert!(run.exited(128).stderr.contains("Authentication failed"), "{}", run.stderr);
    assert_eq!(cluster.read("runs"), "x\n", "an answer of the server is final");
}
