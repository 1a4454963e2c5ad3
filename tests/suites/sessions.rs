//! Running sessions: listing them, and calling tools in a given one or the own one.
//!
//! Proves `spec/cli.md#exec`, `spec/cli.md#sessions`.

use std::process::Command;

use aifo_tests::{Outcome, Running, Session, SessionSetup, Signal, binaries, eventually};

/// `aifo-coder` in the environment of a running session.
fn coder(session: &Session, args: &[&str]) -> Command {
    let mut coder = Command::new(&binaries().coder);
    coder
        .env_clear()
        .env("PATH", session.scratch().join("tools"))
        .env("HOME", session.scratch().join("home"))
        .env("TMPDIR", session.scratch().join("run"))
        .env("XDG_RUNTIME_DIR", session.scratch().join("run"))
        .env("AIFO_SHIM_BIN", &binaries().shim)
        .current_dir(session.workspace())
        .args(args);
    coder
}

/// The session id, from its line in the list.
#[track_caller]
fn id(session: &Session) -> String {
    let outcome = Outcome::of(&mut coder(session, &["sessions"]));
    let text = outcome.exited(0).text();
    let row = text.lines().nth(1).unwrap_or_else(|| panic!("no session in {text:?}"));
    row.split_whitespace().next().expect("a row begins with an id").to_owned()
}

#[test]
fn a_session_is_listed_while_it_runs() {
    let mut session = Session::start();
    let outcome = Outcome::of(&mut coder(&session, &["sessions"]));
    let text = outcome.exited(0).text();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    let [head, row] = &lines[..] else { panic!("{text}") };
    assert_eq!(head[..], ["ID", "UPTIME", "PID", "BACKEND", "TOOLCHAINS", "WORKSPACE"]);
    let workspace = session.file("");
    assert_eq!(
        row[2..],
        [&session.pid().to_string(), "local", "rust,c-cpp", workspace.trim_end_matches('/')]
    );
    session.end(Signal::SIGTERM);
    let outcome = Outcome::of(&mut coder(&session, &["sessions"]));
    assert_eq!(outcome.exited(0).text(), "");
    assert_eq!(outcome.only_line(), "aifo-coder: no running sessions");
}

#[test]
fn running_tools_are_listed_by_every_version() {
    let session = Session::start();
    let listed = || Outcome::of(&mut coder(&session, &["sessions"])).exited(0).text();
    for version in ["1", "2", "3"] {
        let mut call = session.shim("make");
        let call = Running::start(call.arg("wait").env("AIFO_SHIM_PROTO", version));
        eventually("the tool is listed", || listed().contains("\n  running make in c-cpp for "));
        let json = Outcome::of(&mut coder(&session, &["sessions", "--json"])).exited(0).text();
        assert!(json.contains("\"tool\": \"make\""), "{json}");
        call.signal(Signal::SIGKILL);
        call.finish();
        eventually("the tool is listed no more", || !listed().contains("running make"));
    }
}

#[test]
fn a_session_whose_launcher_was_killed_is_none_though_its_pid_be_taken() {
    let mut session = Session::start();
    let id = id(&session);
    session.end(Signal::SIGKILL);
    let card = session.scratch().join(format!("run/aifo-{id}/session.json"));
    let printed = std::fs::read_to_string(&card).unwrap();
    let taken = printed.replace(&session.pid().to_string(), &std::process::id().to_string());
    std::fs::write(&card, taken).unwrap();
    let outcome = Outcome::of(&mut coder(&session, &["sessions"]));
    assert_eq!(outcome.only_line(), "aifo-coder: no running sessions");
}

#[test]
fn the_list_in_json() {
    let mut session = Session::start();
    let text = Outcome::of(&mut coder(&session, &["sessions", "--json"])).exited(0).text();
    for key in ["\"id\": \"", "\"uptime_secs\": ", "\"pid\": ", "\"log\": \"", "\"rust\""] {
        assert!(text.contains(key), "{key}: {text}");
    }
    assert!(!text.contains(session.token()), "{text}");
    session.end(Signal::SIGTERM);
    let none = Outcome::of(&mut coder(&session, &["sessions", "--json"]));
    assert_eq!(none.exited(0).text(), "[]\n");
    assert_eq!(none.stderr, "");
}

#[test]
fn a_call_joins_a_session_by_the_beginning_of_its_id() {
    let session = Session::start();
    let id = id(&session);
    for name in [id.as_str(), &id[..4], ""] {
        let args = ["exec", "--session", name, "--", "make", "say", "hi"];
        let outcome = Outcome::of(&mut coder(&session, &args));
        assert_eq!(outcome.exited(0).text(), "hi\n", "'{name}'");
    }
    let outcome =
        Outcome::of(&mut coder(&session, &["exec", "--session", &id, "--", "make", "exit", "7"]));
    outcome.exited(7);
    let outcome = Outcome::of(&mut coder(&session, &["exec", "--session", &id, "--", "ls"]));
    outcome.exited(86);
}

#[test]
fn a_joined_call_is_one_process_and_takes_its_signals() {
    let session = Session::start();
    let id = id(&session);
    let interrupted = |version: &str| {
        let mut call = coder(&session, &["exec", "--session", &id, "--", "make", "wait"]);
        let call = Running::start(call.env("AIFO_SHIM_PROTO", version));
        call.expect("ready\n");
        assert_eq!(aifo_tests::argv(call.pid())[..2], ["make", "wait"]);
        assert_eq!(aifo_tests::children(call.pid()), Vec::<i32>::new());
        call.signal(Signal::SIGINT);
        call.finish()
    };
    interrupted("2").exited(130);
    interrupted("3").died_of(Signal::SIGINT);
}

#[test]
fn an_id_that_matches_none_or_many_is_reported_with_the_candidates() {
    let session = Session::start();
    let id = id(&session);
    let outcome = Outcome::of(&mut coder(&session, &["exec", "--session", "xyz", "--", "make"]));
    let printed =
        format!("aifo-coder: no running session 'xyz'\nhint: available: {id}; {ELSEWHERE}\n");
    assert_eq!(outcome.exited(86).stderr, printed);
    let alone = SessionSetup::new();
    let outcome = Outcome::of(alone.coder().args(["exec", "--session", "5d", "--", "make"]));
    let printed = format!("aifo-coder: no running session '5d'\nhint: {ELSEWHERE}\n");
    assert_eq!(outcome.exited(86).stderr, printed);
}

const ELSEWHERE: &str = "for a session in a cluster add --backend kubernetes";

#[test]
fn a_call_alone_has_a_session_that_ends_with_it() {
    let setup = SessionSetup::new();
    let exec = |args: &[&str]| {
        let mut exec = setup.coder();
        Outcome::of(exec.args(["exec", "--toolchain=c-cpp", "--"]).args(args))
    };
    assert_eq!(exec(&["make", "say", "hi"]).exited(0).text(), "hi\n");
    exec(&["make", "exit", "9"]).exited(9);
    exec(&["make", "die", "15"]).exited(143);
    exec(&["cargo", "say"]).exited(86);
    let outcome = exec(&["ls"]);
    let printed = "aifo-coder: no toolchain has a tool 'ls'; nothing ran\n\
                hint: see 'aifo-coder why ls'\n";
    assert_eq!(outcome.exited(86).stderr, printed);
    let left: Vec<_> = aifo_tests::files_below(&setup.runtime());
    assert!(left.is_empty(), "{left:?}");
}
