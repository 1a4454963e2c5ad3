//! `aifo-coder approve`, at a terminal and without one.

use std::process::Command;

use aifo_tests::{Outcome, Session, binaries, eventually};

use super::{ended, session, session_directory, shim, spawn};

fn approve(session: &Session) -> Command {
    coder(session, "approve")
}

fn coder(session: &Session, word: &str) -> Command {
    let mut coder = Command::new(&binaries().coder);
    let scratch = session.scratch();
    coder
        .env_clear()
        .env("HOME", scratch.join("home"))
        .env("XDG_RUNTIME_DIR", scratch.join("run"))
        .env("TMPDIR", scratch.join("run"))
        .arg(word);
    coder
}

/// Waits until this many questions are open, and returns what `approve` prints.
#[track_caller]
fn listed(session: &Session, count: usize) -> String {
    let mut text = String::new();
    eventually("the questions are listed", || {
        text = Outcome::of(&mut approve(session)).exited(0).text();
        text.lines().filter(|line| line.starts_with('q')).count() == count
    });
    text
}

#[test]
fn questions_are_listed_and_answered_without_a_terminal() {
    let session = session(300);
    let outcome = Outcome::of(&mut approve(&session));
    assert_eq!(outcome.exited(0).stderr, "aifo-coder: no calls wait for approval\n");
    let call = spawn(shim(&session, "3", &["say", "a b", "ask"]));
    let directory = session.file("");
    let directory = directory.trim_end_matches('/');
    let expected =
        format!("q1  make say \"a b\" ask\n  in {directory}\n  rule 'make': it is shared\n");
    assert_eq!(listed(&session, 1), expected);
    let state = || {
        let text = Outcome::of(&mut coder(&session, "ps")).exited(0).text();
        let row = text.lines().nth(1).unwrap_or_else(|| panic!("no row in {text}"));
        row.split_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(state(), "asks");
    let unknown = Outcome::of(approve(&session).args(["--answer", "q1", "yes"]));
    assert!(unknown.exited(2).stderr.contains("one of once, session"), "{}", unknown.stderr);
    Outcome::of(approve(&session).args(["--answer", "q1", "once"])).exited(0);
    assert_eq!(ended(call).1, "a b ask\n");
    assert_eq!(state(), "runs");
    let late = Outcome::of(approve(&session).args(["--answer", "q1", "deny"]));
    let expected = "question 'q1' was already answered with 'once' by approve (pid ";
    assert!(late.exited(1).stderr.contains(expected), "{}", late.stderr);
}

#[test]
fn the_agent_cannot_answer() {
    let session = session(300);
    let call = spawn(shim(&session, "3", &["say", "x", "ask"]));
    listed(&session, 1);
    // As the agent, whose variables name the session.
    let mut agent = approve(&session);
    agent.env("AIFO_TOOLEEXEC_URL", session.url()).args(["--answer", "q1", "once"]);
    let outcome = Outcome::of(&mut agent);
    assert!(outcome.exited(1).stderr.contains("closed the connection"), "{}", outcome.stderr);
    // No other user can connect.
    let socket = session_directory(&session).join("control.sock");
    let mode = std::os::unix::fs::PermissionsExt::mode(&socket.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    Outcome::of(approve(&session).args(["--answer", "q1", "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
}
