//! `aifo-coder log`: the calls of a session, during and after it.
//!
//! Proves `spec/cli.md#log`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{Outcome, Running, Session, SessionSetup, Signal, binaries, eventually};

/// `aifo-coder log` in a session environment.
fn log(session: &Session, args: &[&str]) -> Command {
    let mut log = Command::new(&binaries().coder);
    log.env_clear()
        .env("HOME", session.scratch().join("home"))
        .env("TMPDIR", session.scratch().join("run"))
        .env("XDG_RUNTIME_DIR", session.scratch().join("run"))
        .arg("log")
        .args(args);
    log
}

fn text(session: &Session, args: &[&str]) -> String {
    Outcome::of(&mut log(session, args)).exited(0).text()
}

/// A session with a success, a failure and a refusal, in this order.
fn session() -> Session {
    let session = Session::start();
    for (tool, args) in [("make", ["say", "hi"]), ("cargo", ["exit", "3"]), ("ls", ["-l", "/x"])] {
        session.answer(&session.exec(tool, args));
    }
    eventually("three calls are written", || text(&session, &[]).lines().count() == 3);
    session
}

fn log_file(session: &Session) -> PathBuf {
    let dir = session.scratch().join("home/.local/state/aifo/log");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    files.remove(0).path()
}

#[test]
fn a_line_per_call() {
    let session = session();
    let text = text(&session, &[]);
    let lines: Vec<&str> = text.lines().collect();
    let [said, failed, refused] = &lines[..] else { panic!("{text}") };
    assert!(said.contains("  exit 0 ") && said.ends_with("  c-cpp     make say hi"), "{said}");
    assert!(
        failed.contains("  exit 3 ") && failed.ends_with("  rust      cargo exit 3"),
        "{failed}"
    );
    assert!(
        refused.contains("  refused ") && refused.contains("  ls -l /x  # forbidden: "),
        "{refused}"
    );
    for line in lines {
        let (time, _) = line.split_once("Z  ").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(time.len(), "2026-10-05 12:03:04".len(), "{line}");
        assert!(!line.contains('\x1b'), "no colour in a pipe: {line:?}");
    }
}

#[test]
fn only_what_failed_and_only_as_it_stands() {
    let session = session();
    let failed = text(&session, &["--failed"]);
    assert_eq!(failed.lines().count(), 2, "{failed}");
    assert!(!failed.contains("make say"), "{failed}");
    let json = text(&session, &["--json"]);
    assert_eq!(json, fs::read_to_string(log_file(&session)).unwrap());
    assert_eq!(text(&session, &["--json", "--failed"]).lines().count(), 2);
}

#[test]
fn a_log_without_a_line_says_so() {
    let session = Session::start();
    session.answer(&session.exec("make", ["say", "hi"]));
    eventually("the call is written", || text(&session, &[]).lines().count() == 1);
    let id = log_file(&session).file_stem().unwrap().to_str().unwrap().to_owned();
    let failed = Outcome::of(&mut log(&session, &["--failed"]));
    assert_eq!(failed.exited(0).text(), "");
    assert_eq!(failed.stderr, format!("aifo-coder: session '{id}' has no failed calls\n"));
    let json = Outcome::of(&mut log(&session, &["--failed", "--json"]));
    assert_eq!(json.exited(0).stderr, "");
}

#[test]
fn a_session_that_ended_can_be_named() {
    let mut session = session();
    session.end(Signal::SIGTERM);
    let file = log_file(&session);
    let id = file.file_stem().unwrap().to_str().unwrap();
    let newest = text(&session, &[]);
    assert_eq!(newest.lines().count(), 3);
    assert_eq!(text(&session, &[&id[..5]]), newest);
    let outcome = Outcome::of(&mut log(&session, &["xyz"]));
    let printed = "aifo-coder: no session 'xyz'\nhint: there are serve-1; for a session in a cluster add \
         --backend kubernetes\n";
    assert_eq!(outcome.exited(1).stderr, printed);
}

#[test]
fn following_ends_with_the_session() {
    let mut session = session();
    let follow = Running::start(&mut log(&session, &["-f"]));
    follow.expect("make say hi\n");
    session.answer(&session.exec("make", ["say", "again"]));
    follow.expect("make say again\n");
    session.end(Signal::SIGTERM);
    assert_eq!(follow.finish().exited(0).text().lines().count(), 4);
}

#[test]
fn a_rotated_log_is_printed_whole() {
    let mut session = session();
    let (log, mut older) = (log_file(&session), log_file(&session).into_os_string());
    older.push(".1");
    let lines = fs::read_to_string(&log).unwrap();
    let follow = Running::start(&mut self::log(&session, &["-f"]));
    follow.expect("make say hi\n");
    fs::rename(&log, &older).unwrap();
    fs::write(&log, lines.lines().nth(1).unwrap().to_owned() + "\n").unwrap();
    follow.expect("cargo exit 3\n");
    assert_eq!(text(&session, &["--json"]).lines().count(), 4);
    session.end(Signal::SIGTERM);
    assert_eq!(follow.finish().exited(0).text().lines().count(), 4);
    assert!(text(&session, &["--json"]).starts_with(&lines));
}

#[test]
fn half_a_line_is_passed_over() {
    let mut session = session();
    session.end(Signal::SIGTERM);
    let mut file = OpenOptions::new().append(true).open(log_file(&session)).unwrap();
    file.write_all(b"nonsense\n{\"time\":1,\"to").unwrap();
    assert_eq!(text(&session, &[]).lines().count(), 3);
    assert_eq!(text(&session, &["--json"]).lines().count(), 3);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let session = session();
    let mut log = log(&session, &["-f"]);
    let mut child = log.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    session.answer(&session.exec("make", ["say"]));
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_any_session_there_is_no_log() {
    let setup = SessionSetup::new();
    let outcome = Outcome::of(setup.coder().arg("log"));
    assert!(outcome.exited(1).stderr.starts_with("aifo-coder: no session has a log\nhint: "));
}

#[test]
fn the_session_of_the_current_project_is_followed() {
    let earlier = session();
    let run = earlier.scratch().join("run");
    let home = earlier.scratch().join("home");
    let setup = SessionSetup::new().env_path("XDG_RUNTIME_DIR", &run).env_path("TMPDIR", &run);
    let mut newest = setup.env_path("HOME", &home).start();
    newest.answer(&newest.exec("make", ["say", "newest"]));
    // The earlier session has the latest call.
    earlier.answer(&earlier.exec("make", ["say", "earlier"]));
    let several = Outcome::of(&mut log(&earlier, &["-f"])).exited(1).stderr.clone();
    for part in ["more than one running session\nhint: name one of: ", "serve-1 (", "serve-2 ("] {
        assert!(several.contains(part), "{several}");
    }
    let mut follow = log(&earlier, &["-f"]);
    let following = Running::start(follow.current_dir(newest.workspace()));
    following.expect("make say newest\n");
    newest.end(Signal::SIGTERM);
    let text = following.finish().exited(0).text();
    assert!(text.ends_with("make say newest\n") && text.lines().count() == 1, "{text}");
}
