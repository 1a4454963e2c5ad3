//! Sessions of `aifo-coder` with the user's rules: *always*, and the program of `[ask] command`.
//!
//! Proves `spec/questions.md#program`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use aifo_tests::{Outcome, Running, Session, SessionSetup, binaries, eventually, processes_using};

use super::{ended, shim, spawn};

/// The user's file, in an order and with comments that must stay.
pub(super) const CONFIG: &str = "# first\nmax_secs = 100 # why\n\n[[rule]] # mine\n\
                                 run = \"make count\"\nthen = \"ask\"\nbecause = \"it counts\"\n\n\
                                 # last\n";

pub(super) fn user_file(scratch: &Path) -> PathBuf {
    scratch.join("home/.config/aifo/config.toml")
}

/// Writes the user's file.
pub(super) fn configure(setup: &SessionSetup, text: &str) {
    let file = user_file(setup.scratch());
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// A session of `aifo-coder serve` in which every `make count` waits.
#[track_caller]
pub(super) fn ruled(config: &str) -> Session {
    let setup = SessionSetup::new().kinds(&["c-cpp"]);
    configure(&setup, config);
    setup.start()
}

pub(super) fn approve(session: &Session, args: &[&str]) -> Command {
    let mut approve = Command::new(&binaries().coder);
    let scratch = session.scratch();
    approve
        .env_clear()
        .env("HOME", scratch.join("home"))
        .env("XDG_RUNTIME_DIR", scratch.join("run"))
        .env("TMPDIR", scratch.join("run"))
        .arg("approve")
        .args(args);
    approve
}

/// Waits until this many calls wait, and returns their ids.
#[track_caller]
pub(super) fn waiting(session: &Session, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    eventually("the calls wait", || {
        let text = Outcome::of(&mut approve(session, &[])).exited(0).text();
        let lines = text.lines().filter(|line| line.starts_with('q'));
        ids = lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        ids.len() == count
    });
    ids
}

pub(super) fn runs(session: &Session, file: &str) -> usize {
    let text = fs::read_to_string(session.workspace().join(file)).unwrap_or_default();
    text.lines().count()
}

/// The lines that a difference adds.
fn added(difference: &str) -> String {
    let lines = difference.lines().filter_map(|line| line.strip_prefix('+'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn always_changes_the_file_by_the_shown_lines_and_the_next_session_obeys() {
    let session = ruled(&format!("{CONFIG}[ask]\ntimeout_secs = 100\n"));
    let before = fs::read_to_string(user_file(session.scratch())).unwrap();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    let id = waiting(&session, 1).remove(0);
    let shown = Outcome::of(&mut approve(&session, &["--answer", &id, "always"])).exited(0).text();
    assert_eq!(ended(call).0, Some(0));
    let after = fs::read_to_string(user_file(session.scratch())).unwrap();
    assert_eq!(after, format!("{before}{}", added(&shown)), "{shown}");
    assert!(shown.contains("examples = { yes = [\"make count ran\"] }"), "{shown}");
    // This session keeps the answer, and a new one has the rule; another call still waits.
    Outcome::of(&mut shim(&session, "3", &["count", "ran"])).exited(0);
    let ran = session.file("ran");
    let policy = |args: &[&str]| {
        let mut check = Command::new(&binaries().coder);
        check.env_clear().env("HOME", session.scratch().join("home"));
        check.current_dir(session.workspace()).args(["policy"]).args(args);
        Outcome::of(&mut check).exited(0).text()
    };
    assert!(policy(&["test"]).contains("examples passed: "));
    let allowed = policy(&["check", "--", "make", "count", "ran"]);
    assert!(allowed.starts_with("verdict:  allow"), "{allowed}");
    let asked = policy(&["check", "--", "make", "count", "ran", "x"]);
    assert!(asked.starts_with("verdict:  ask"), "{asked}");
    let mut second = Command::new(&binaries().coder);
    second
        .env_clear()
        .env("HOME", session.scratch().join("home"))
        .env("PATH", session.scratch().join("tools"))
        .env("TMPDIR", session.scratch().join("run"))
        .env("XDG_RUNTIME_DIR", session.scratch().join("run"))
        .env("AIFO_SHIM_BIN", &binaries().shim)
        .current_dir(session.workspace())
        .args(["exec", "-q", "--backend", "local", "--toolchain", "c-cpp", "make", "count", "ran"]);
    Outcome::of(&mut second).exited(0);
    assert_eq!(fs::read_to_string(ran).unwrap().lines().count(), 3);
}

#[test]
fn concurrent_answers_lose_no_rule() {
    let session = ruled(&format!("{CONFIG}[ask]\ntimeout_secs = 100\n"));
    let calls: Vec<_> = (0..6)
        .map(|number| spawn(shim(&session, "3", &["count", &format!("ran{number}")])))
        .collect();
    let ids = waiting(&session, 6);
    thread::scope(|scope| {
        for id in &ids {
            let session = &session;
            scope.spawn(move || {
                Outcome::of(&mut approve(session, &["--answer", id, "always"])).exited(0);
            });
        }
    });
    for call in calls {
        assert_eq!(ended(call).0, Some(0));
    }
    let after = fs::read_to_string(user_file(session.scratch())).unwrap();
    assert!(after.starts_with(CONFIG), "{after}");
    for number in 0..6 {
        let example = format!("yes = [\"make count ran{number}\"]");
        assert_eq!(after.matches(&example).count(), 1, "{after}");
    }
}

#[test]
fn a_read_only_file_is_an_error_and_the_call_runs_once() {
    let session = ruled(&format!("{CONFIG}[ask]\ntimeout_secs = 100\n"));
    let file = user_file(session.scratch());
    let before = fs::read_to_string(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    let id = waiting(&session, 1).remove(0);
    let outcome = Outcome::of(&mut approve(&session, &["--answer", &id, "always"]));
    let errors = &outcome.exited(1).stderr;
    let expected = format!("cannot write '{}': the file is read-only", file.display());
    assert!(errors.contains(&expected), "{errors}");
    assert!(errors.contains(&format!("answered {id} with 'once'")), "{errors}");
    assert_eq!(ended(call).0, Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    // Not for the session.
    let call = spawn(shim(&session, "3", &["count", "ran"]));
    let id = waiting(&session, 1).remove(0);
    Outcome::of(&mut approve(&session, &["--answer", &id, "deny"])).exited(0);
    assert_eq!(ended(call).0, Some(86));
    assert_eq!(runs(&session, "ran"), 1);
}

/// A session with this program of `[ask] command`, written in sh.
#[track_caller]
fn asking(body: &str, secs: u32) -> (Session, PathBuf) {
    let setup = SessionSetup::new().kinds(&["c-cpp"]);
    let directory = setup.scratch().join("programs");
    fs::create_dir_all(&directory).unwrap();
    let program = directory.join("answers");
    fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let ask = format!("[ask]\ntimeout_secs = {secs}\ncommand = [{program:?}, \"a b\"]\n");
    configure(&setup, &format!("{CONFIG}{ask}"));
    (setup.start(), directory)
}

#[test]
fn a_program_answers() {
    let body = "read line; echo \"$1 $line\" > \"${0%/*}/got\"; case $line in *yes*) echo once;; \
                *) echo deny;; esac";
    let (session, directory) = asking(body, 100);
    Outcome::of(&mut shim(&session, "3", &["count", "yes"])).exited(0);
    let got = fs::read_to_string(directory.join("got")).unwrap();
    let line: serde_json::Value = serde_json::from_str(got.strip_prefix("a b ").unwrap()).unwrap();
    assert_eq!(line["question"]["argv"], serde_json::json!(["make", "count", "yes"]));
    let outcome = Outcome::of(&mut shim(&session, "3", &["count", "no"]));
    assert!(outcome.exited(86).stderr.contains("denied by the user: make count no"));
}

#[test]
fn a_program_without_an_answer_leaves_the_question_open() {
    // An exit code other than 0, another word, `always`, no output, too much of it.
    for body in [
        "echo once; exit 1",
        "echo maybe",
        "echo always",
        ":",
        "echo once; kill -9 $$",
        "echo 'once deny'",
        "head -c 100000 /dev/zero | tr '\\0' x",
    ] {
        let (session, _) = asking(&format!("echo x >> \"${{0%/*}}/runs\"; {body}"), 100);
        let call = spawn(shim(&session, "3", &["count", "ran"]));
        let id = waiting(&session, 1).remove(0);
        let ran = session.scratch().join("programs/runs");
        eventually("the program has run", || ran.exists());
        Outcome::of(&mut approve(&session, &["--answer", &id, "once"])).exited(0);
        assert_eq!(ended(call).0, Some(0), "{body}");
        assert_eq!(fs::read_to_string(ran).unwrap(), "x\n", "it is run once: {body}");
    }
}

#[test]
fn a_program_ends_with_its_question() {
    let body = "echo x > \"${0%/*}/started\"; exec sleep 1000";
    let (session, directory) = asking(body, 2);
    let outcome = Outcome::of(&mut shim(&session, "3", &["count", "ran"]));
    assert!(outcome.exited(86).stderr.contains("not approved within 2 s"), "{}", outcome.stderr);
    // The client has left, so its question stays open for a while, without the program.
    assert!(directory.join("started").exists());
    let id = waiting(&session, 1).remove(0);
    Outcome::of(&mut approve(&session, &["--answer", &id, "deny"])).exited(0);
    eventually("the program has ended", || processes_using(&directory).is_empty());
}

#[test]
fn a_program_that_an_agent_can_replace_is_not_used() {
    let setup = SessionSetup::new().kinds(&["c-cpp"]);
    let program = setup.workspace().join("answers");
    fs::write(&program, "#!/bin/sh\necho once\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    configure(&setup, &format!("{CONFIG}[ask]\ncommand = [{program:?}]\n"));
    let serve = Running::start(setup.coder().args(["serve", "--toolchain", "c-cpp"]));
    let outcome = serve.finish();
    let errors = &outcome.exited(86).stderr;
    let expected = format!("cannot use '{}' of ask.command: an agent can write", program.display());
    assert!(errors.contains(&expected), "{errors}");
}
