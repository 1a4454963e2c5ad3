//! `aifo-coder clean` removes the leftovers of killed sessions and nothing else. (`container_ops`
//! tests leftovers on an engine.)
//!
//! Other suites run sessions on this machine at the same time, so these tests remove sessions by
//! their ids.
//!
//! Proves `spec/cli.md#clean`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{
    Listen, Outcome, Running, Session, SessionSetup, Signal, binaries, eventually, write_executable,
};

/// `aifo-coder` with `run` as the parent of session directories.
fn coder(run: &Path, args: &[&str]) -> Command {
    let mut coder = Command::new(&binaries().coder);
    coder
        .env_clear()
        .env("PATH", run)
        .env("HOME", run)
        .env("TMPDIR", run)
        .env("XDG_RUNTIME_DIR", run)
        .env("AIFO_SHIM_BIN", &binaries().shim)
        .args(args);
    coder
}

/// The names of session directories and temporary directories.
fn dirs(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.starts_with("aifo-"));
    names.sort();
    names
}

fn run(session: &Session) -> PathBuf {
    session.scratch().join("run")
}

/// The id of the only session here.
#[track_caller]
fn id(run: &Path) -> String {
    let names = dirs(run);
    let own = names.iter().find(|name| !name.ends_with("-tmp")).expect("a session has a directory");
    own.trim_start_matches("aifo-").to_owned()
}

#[test]
fn leftovers_of_a_killed_session_are_listed_and_removed() {
    let mut session = Session::start();
    let run = run(&session);
    let id = id(&run);
    session.end(Signal::SIGKILL);
    let left = [format!("aifo-{id}"), format!("aifo-{id}-tmp")];
    assert_eq!(dirs(&run), left);

    let printed = Outcome::of(&mut coder(&run, &["cleanup", "--dry-run", &id])).exited(0).text();
    let expected =
        left.iter().map(|name| format!("would remove directory {}\n", run.join(name).display()));
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    let mut lines: Vec<_> = printed.lines().map(|line| format!("{line}\n")).collect();
    lines.sort();
    assert_eq!(lines, expected);
    assert_eq!(dirs(&run), left, "nothing was removed");

    let json = Outcome::of(&mut coder(&run, &["cleanup", "--json", &id])).exited(0).text();
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["session"], id.as_str());
        assert_eq!((&row["what"], &row["removed"]), (&"directory".into(), &true.into()));
        assert!(row["engine"].is_null() && row["error"].is_null(), "{row}");
    }
    assert_eq!(dirs(&run), [""; 0]);
    let outcome = Outcome::of(&mut coder(&run, &["cleanup", &id]));
    assert!(outcome.exited(0).only_line().starts_with("aifo-coder: no remains of killed sessions"));
}

/// A killed session, and a call in a session of its own in the same runtime directory.
fn killed() -> (Session, PathBuf, String, Command) {
    let mut session = Session::start();
    let run = run(&session);
    let id = id(&run);
    session.end(Signal::SIGKILL);
    let mut exec = coder(&run, &["exec", "--backend=local", "--toolchain=rust", "cargo", "say"]);
    exec.current_dir(session.workspace()).env("PATH", session.scratch().join("tools"));
    (session, run, id, exec)
}

#[test]
fn the_next_session_removes_what_was_left() {
    let (_session, run, id, mut exec) = killed();
    let outcome = Outcome::of(&mut exec);
    let expected = format!("aifo-coder: removed what killed session {id} left");
    assert_eq!(outcome.exited(0).only_line(), expected);
    assert_eq!(dirs(&run), [""; 0]);
    assert_eq!(Outcome::of(&mut exec).exited(0).stderr, "");
}

#[test]
fn a_quiet_session_removes_it_without_a_line() {
    let (session, run, _, _) = killed();
    let mut exec =
        coder(&run, &["exec", "-q", "--backend=local", "--toolchain=rust", "cargo", "say"]);
    exec.current_dir(session.workspace()).env("PATH", session.scratch().join("tools"));
    assert_eq!(Outcome::of(&mut exec).exited(0).stderr, "");
    assert_eq!(dirs(&run), [""; 0]);
}

#[test]
fn the_next_session_keeps_what_a_process_still_uses() {
    let (_session, run, id, mut exec) = killed();
    let tmp = run.join(format!("aifo-{id}-tmp"));
    let mut process = Command::new("/bin/sleep").arg("600").env("TMPDIR", &tmp).spawn().unwrap();
    let outcome = Outcome::of(&mut exec);
    let left = dirs(&run);
    process.kill().unwrap();
    process.wait().unwrap();
    let expected = format!(
        "aifo-coder: killed session {id} left files or containers, some still in use; \
         run 'aifo-coder clean'"
    );
    assert_eq!(outcome.exited(0).only_line(), expected);
    assert_eq!(left, [format!("aifo-{id}"), format!("aifo-{id}-tmp")]);
    Outcome::of(&mut exec).exited(0);
    assert_eq!(dirs(&run), [""; 0]);
}

#[test]
fn a_session_that_runs_is_not_touched() {
    let mut dead = Session::start();
    let run = run(&dead);
    let dead_id = id(&run);
    let beside =
        SessionSetup::new().env_path("XDG_RUNTIME_DIR", &run).env_path("TMPDIR", &run).start();
    dead.end(Signal::SIGKILL);
    let listed = Outcome::of(&mut coder(&run, &["ps", "--json"])).exited(0).text();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let live_id = listed[0]["id"].as_str().unwrap().to_owned();

    let all = Outcome::of(&mut coder(&run, &["cleanup", "--dry-run"])).exited(0).text();
    assert!(all.contains(&dead_id) && !all.contains(&live_id), "{all}");
    let outcome = Outcome::of(&mut coder(&run, &["cleanup", &live_id]));
    let printed = format!("aifo-coder: session {live_id} is running; nothing of it is removed");
    assert_eq!(outcome.exited(0).only_line(), printed);
    Outcome::of(&mut coder(&run, &["cleanup", &dead_id])).exited(0);
    assert_eq!(dirs(&run), [format!("aifo-{live_id}"), format!("aifo-{live_id}-tmp")]);
    assert_eq!(beside.answer(&beside.exec("make", ["say", "hi"])).text(), "hi\n");
}

#[test]
fn a_session_that_is_starting_is_not_touched() {
    let setup = SessionSetup::new();
    let shim = setup.scratch().join("slow-shim");
    let real = binaries().shim.display();
    // It does not respond as a runner, so the session keeps starting.
    let script =
        format!("#!/bin/sh\n[ \"$1\" = --version ] && exec {real} --version\nexec /bin/cat\n");
    write_executable(&shim, script, 0o755);
    let setup = setup.env_path("AIFO_SHIM_BIN", &shim);
    let run = setup.runtime();
    let mut serve = setup.coder();
    let starting = Running::start(serve.args(["serve", "--backend=local", "--toolchain=rust"]));
    eventually("it has its directories", || dirs(&run).len() == 2);
    let id = id(&run);
    let outcome = Outcome::of(&mut coder(&run, &["cleanup", &id]));
    assert!(outcome.exited(0).only_line().starts_with("aifo-coder: no remains of killed sessions"));
    assert_eq!(dirs(&run).len(), 2);

    starting.signal(Signal::SIGKILL);
    starting.finish();
    let printed = Outcome::of(&mut coder(&run, &["cleanup", &id])).exited(0).text();
    assert_eq!(printed.lines().count(), 2, "{printed}");
    assert_eq!(dirs(&run), [""; 0]);
}

#[test]
fn a_socket_elsewhere_goes_too_with_the_directory_made_for_it() {
    let setup = SessionSetup::new();
    let dir = setup.scratch().join("socket");
    let url = format!("unix://{}/exec.sock", dir.display());
    let mut session = setup.listen(Listen::On(url)).start();
    let run = run(&session);
    let id = id(&run);
    session.end(Signal::SIGKILL);
    assert!(dir.join("exec.sock").exists());
    let printed = Outcome::of(&mut coder(&run, &["cleanup", &id])).exited(0).text();
    let line = format!("removed socket {}/exec.sock", dir.display());
    assert!(printed.lines().any(|printed| printed == line), "{printed}");
    assert!(!dir.exists());
}
