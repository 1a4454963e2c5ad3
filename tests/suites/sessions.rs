//! Running sessions: listing them, and calling tools in a given one or the own one.
//!
//! Proves `spec/cli.md#exec`, `spec/cli.md#ps` and `spec/cli.md#earlier-words`.

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
    field(session, "id")
}

/// A field of the only session.
#[track_caller]
fn field(session: &Session, key: &str) -> String {
    let text = Outcome::of(&mut coder(session, &["ps", "--json"])).exited(0).text();
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    rows[0][key].as_str().unwrap_or_else(|| panic!("no {key} in {text}")).to_owned()
}

#[test]
fn a_session_is_listed_while_it_runs() {
    let mut session = Session::start();
    let outcome = Outcome::of(&mut coder(&session, &["sessions"]));
    let text = outcome.exited(0).text();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    let [head, row] = &lines[..] else { panic!("{text}") };
    assert_eq!(head[..], ["NAME", "UPTIME", "STATE", "TOOLCHAINS", "WORKSPACE"]);
    let workspace = session.file("");
    assert_eq!(row[0], "serve-1");
    assert_eq!(row[2..], ["runs", "rust,c-cpp", workspace.trim_end_matches('/')]);
    let more = Outcome::of(&mut coder(&session, &["ps", "-v"])).exited(0).text();
    let details = format!("\n  session {}, process {}, local\n", id(&session), session.pid());
    assert!(more.contains(&details), "{more}");
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
fn a_call_joins_a_session_by_name_or_by_the_beginning_of_its_id() {
    let session = Session::start();
    let id = id(&session);
    for name in [id.as_str(), &id[..4], "", "serve-1", "serve"] {
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
    let outcome = Outcome::of(&mut coder(&session, &["exec", "--session", "xyz", "--", "make"]));
    let printed =
        format!("aifo-coder: no running session 'xyz'\nhint: there are serve-1; {ELSEWHERE}\n");
    assert_eq!(outcome.exited(86).stderr, printed);
    let alone = SessionSetup::new();
    let outcome = Outcome::of(alone.coder().args(["exec", "--session", "5d", "--", "make"]));
    let printed = format!("aifo-coder: no running session '5d'\nhint: {ELSEWHERE}\n");
    assert_eq!(outcome.exited(86).stderr, printed);
}

/// Proves `spec/cli.md#which-session` and `spec/cli.md#stop`.
#[test]
fn commands_mean_the_session_of_the_current_project() {
    let mut first = Session::start();
    let run = first.scratch().join("run");
    let setup = SessionSetup::new().env_path("XDG_RUNTIME_DIR", &run).env_path("TMPDIR", &run);
    let mut second = setup.env_path("HOME", &first.scratch().join("home")).start();
    let stop = |words: &[&str], directory: &std::path::Path| {
        Outcome::of(coder(&first, &[&["stop"], words].concat()).current_dir(directory))
    };
    let several = stop(&[], &run);
    let message = &several.exited(1).stderr;
    for part in ["more than one running session\nhint: name one of: serve-1 (", ", serve-2 ("] {
        assert!(message.contains(part), "{message}");
    }
    let below = second.workspace().join("below");
    std::fs::create_dir(&below).unwrap();
    let stopped = stop(&[], &below);
    assert_eq!(stopped.exited(0).only_line(), "aifo-coder: session serve-2 has ended");
    assert!(second.end(Signal::SIGTERM).success());
    assert_eq!(field(&first, "name"), "serve-1");
    // Its name is free again, and the only session is meant from anywhere.
    let stopped = stop(&[], &run);
    assert_eq!(stopped.exited(0).only_line(), "aifo-coder: session serve-1 has ended");
    let none = stop(&[], &run);
    let message = &none.exited(1).stderr;
    assert!(message.starts_with("aifo-coder: no running session found\nhint: "), "{message}");
    assert!(first.end(Signal::SIGTERM).success());
}

/// An interactive shell ignores TERM, so HUP ends it.
#[test]
fn a_shell_is_stopped() {
    let setup = SessionSetup::new();
    let terminal = aifo_tests::Terminal::sized(80, 24);
    let mut run = setup.coder();
    run.args(["run", "-q", "--toolchain", "auto", "--", "/bin/bash", "--norc", "-i"]);
    let run = terminal.start(&run);
    eventually("it runs", || {
        let listed = Outcome::of(setup.coder().arg("ps")).text();
        listed.contains("\nbash-1 ")
    });
    let stopped = Outcome::of(setup.coder().args(["stop", "bash"]));
    assert_eq!(
        stopped.exited(0).stderr,
        "aifo-coder: session bash-1 is still ending\naifo-coder: session bash-1 has ended\n"
    );
    assert_eq!(run.finish(), Ok(129));
}

#[test]
fn an_agent_is_a_command() {
    let setup = SessionSetup::new();
    let agent = Outcome::of(setup.coder().args(["codex", "--backend", "local"]));
    let run = Outcome::of(setup.coder().args(["run", "codex", "--backend", "local"]));
    assert_eq!((agent.code(), &agent.stderr), (run.code(), &run.stderr));
    let unknown = Outcome::of(setup.coder().arg("no-such-agent"));
    assert!(unknown.exited(2).stderr.contains("unrecognized subcommand"), "{}", unknown.stderr);
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
