//! `run --backend kubernetes` in a cluster (`spec/kubernetes.md#run`): with podman, by a script in place of
//! kubectl, and with `cargo xtask test kubernetes` on the cluster of the user's kubectl.

use std::io::Write;
use std::process::Stdio;

use aifo_tests::{
    Outcome, PodCluster, REPOSITORY_IN_POD, Running, Signal, Terminal, eventually, send_signal,
    skipped,
};

const LEAVE: &str = "\x1c\x04";

/// Calls make, whose recipe runs in the container of rust, and waits for a line of the user.
const AGENT: &str = "printf 'all:\\n\\t@sh tool.sh\\n' >Makefile; echo 'echo tool in $CARGO_HOME' >tool.sh; \
                     echo began; make; read -r word; echo got $word; exit 7";

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_session_is_left_shown_again_and_ends_with_the_agents_code() {
    let name = "a_session_is_left_shown_again_and_ends_with_the_agents_code";
    let Some(cluster) = PodCluster::of_run(name) else { return };
    let first = Terminal::sized(80, 24);
    let run = first.start(&cluster.run(&[], AGENT));
    first.expect("began").expect("tool in /home/coder/.cargo");
    first.press(LEAVE);
    assert_eq!(run.finish(), Ok(0), "{}", first.shown());
    let id = cluster.latest();

    let second = Terminal::sized(100, 30);
    let attach = second.start(&cluster.on_pods(&["attach", &id]));
    second.expect("began").expect("tool in /home/coder/.cargo");
    // A client whose kubectl is killed connects again.
    let relays = cluster.relays(&id);
    assert_eq!(relays.len(), 1, "{relays:?}");
    send_signal(relays[0], Signal::SIGKILL);
    eventually("the client has connected again", || {
        cluster.relays(&id).iter().any(|pid| !relays.contains(pid))
    });
    let log = Outcome::of(&mut cluster.on_pods(&["log", &id]));
    assert!(log.exited(0).text().contains("make"), "{}", log.text());
    second.press("word\r");
    assert_eq!(attach.finish(), Ok(7), "{}", second.shown());
    second.expect("got word");
    cluster.expect_nothing_left(&id);
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn an_end_without_a_client_is_shown_later() {
    let Some(cluster) = PodCluster::of_run("an_end_without_a_client_is_shown_later") else {
        return;
    };
    let id = Outcome::of(&mut cluster.run(&["--detach"], "echo the end; exit 5")).exited(0).text();
    let id = id.trim_end();
    eventually("the agent has ended", || {
        let log = Outcome::of(&mut cluster.on_pods(&["log", id]));
        log.code() == Some(0)
    });
    let terminal = Terminal::sized(80, 24);
    let attach = terminal.start(&cluster.on_pods(&["attach", id]));
    assert_eq!(attach.finish(), Ok(5), "{}", terminal.shown());
    terminal.expect("the end");
    cluster.expect_nothing_left(id);
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn without_a_terminal_bytes_and_exit_code_pass() {
    let Some(cluster) = PodCluster::of_run("without_a_terminal_bytes_and_exit_code_pass") else {
        return;
    };
    let mut run = cluster.run(&[], "cat; echo error >&2; exit 3");
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    run.stdin.take().unwrap().write_all(b"one\r\n\0\xff").unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!(output.stdout, b"one\r\n\0\xff");
    assert!(stderr.contains("error\n") && !stderr.contains("command terminated"), "{stderr}");
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_signal_ends_the_command_then_the_pod() {
    let Some(cluster) = PodCluster::of_run("a_signal_ends_the_command_then_the_pod") else {
        return;
    };
    let agent = "trap 'echo last words; exit 5' TERM INT; echo began; while :; do sleep 0.1; done";
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let run = Running::start(&mut cluster.run(&[], agent));
        run.expect("began");
        let id = cluster.latest();
        run.signal(signal);
        let outcome = run.finish();
        outcome.exited(code);
        assert!(outcome.text().contains("last words\n"), "{signal}: {outcome:?}");
        cluster.expect_nothing_left(&id);
    }
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_claim_keeps_the_files_of_a_session() {
    let name = "a_claim_keeps_the_files_of_a_session";
    let Some(cluster) = PodCluster::of_run(name) else { return };
    let Some(claim) = cluster.claim() else { return skipped(name, "the cluster has no claim") };
    let run =
        |script: &str| Outcome::of(&mut cluster.run(&["--pvc", &claim], script)).exited(0).text();
    run("python3 -c 'open(\"aifo-kept\", \"w\").write(\"by a tool\")'");
    assert_eq!(run("cat aifo-kept; rm aifo-kept"), "by a tool");
}

/// The agent container has the launcher image, which has git.
fn run_clone(cluster: &PodCluster, flags: &[&str], script: &str) -> std::process::Command {
    let kind = format!("rust={}", cluster.image());
    let run = ["run", "--backend", "kubernetes", "--quiet", "--git", REPOSITORY_IN_POD];
    let images = ["--launcher-image", cluster.launcher(), "--image", cluster.launcher()];
    let kinds = ["--toolchain", "rust", "--toolchain-image", &kind];
    cluster.coder(&[&run, &images[..], &kinds, flags, &["--", "sh", "-c", script]].concat())
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_clone_brings_its_commits_back() {
    let Some(cluster) = PodCluster::of_run("a_clone_brings_its_commits_back") else { return };
    // The agent configuration and hooks have no effect on aifo, and the login is not in its container.
    let script = "git config core.fsmonitor 'touch /tmp/ran; false' && git config core.hooksPath /tmp && \
                  echo one >file && git -c core.fsmonitor=false -c user.name=a -c user.email=a@example commit -qam agent && \
                  echo two >more; rm -f /tmp/ran; env | grep AIFO_GIT; exit 7";
    let run = Outcome::of(&mut run_clone(&cluster, &["--git-push"], script));
    if ["GLIBC", "shared libraries"].iter().any(|part| run.stderr.contains(part)) {
        return skipped(
            "a_clone_brings_its_commits_back",
            "this machine's git does not run in the image",
        );
    }
    let stderr = &run.exited(7).stderr;
    assert_eq!(run.text(), "");
    // A container root is read-only.
    assert!(stderr.contains("cannot push aifo/"), "{stderr}");
    assert!(
        stderr.contains("2 commits on branch aifo/") && stderr.contains("uncommitted files"),
        "{stderr}"
    );
    let command = stderr.lines().find_map(|line| line.split_once("fetch it with: ")).unwrap().1;
    let path = command.split_whitespace().nth(2).unwrap();
    let log = |words: &[&str]| {
        let mut git = std::process::Command::new("git");
        Outcome::of(git.args(["--git-dir", path]).args(words)).exited(0).text()
    };
    let id = path.rsplit('/').next().unwrap().strip_suffix(".git").unwrap();
    assert_eq!(log(&["log", "--format=%s", &format!("aifo/{id}~1")]), "agent\nstart\n");
    assert_eq!(log(&["show", &format!("aifo/{id}:more")]), "two\n");
    cluster.expect_nothing_left(id);
}

/// A program with the name of git, after the shims in PATH.
const PUSH: &str = "mkdir /tmp/b; printf '#!/bin/sh\necho ran: $*\n' >/tmp/b/git; chmod 755 /tmp/b/git; \
                    PATH=$PATH:/tmp/b; git status; git push --force; echo pushed: $?; read -r word";

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_force_push_in_a_pod_is_asked_and_denied() {
    let Some(cluster) = PodCluster::of_run("a_force_push_in_a_pod_is_asked_and_denied") else {
        return;
    };
    let terminal = Terminal::sized(120, 30);
    let run = terminal.start(&cluster.run(&[], PUSH));
    terminal.expect("ran: status");
    let id = cluster.latest();
    let approve = |words: &[&str]| {
        let command = ["approve", "--backend", "kubernetes"];
        Outcome::of(&mut cluster.coder(&[&command[..], words, &[&id]].concat()))
    };
    eventually("the push waits", || approve(&[]).text().contains("push --force"));
    approve(&["--answer", "q1", "deny"]).exited(0);
    terminal.expect("pushed: 86");
    assert!(!terminal.shown().contains("ran: push"), "{}", terminal.shown());
    terminal.press("\r");
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
}
