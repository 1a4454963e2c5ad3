//! `aifo-coder changes` and `aifo-coder undo`, in a session and after it.
//!
//! Proves `spec/history.md`, `spec/history.md#in-an-editor` and `spec/cli.md#changes-undo`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use aifo_tests::{Outcome, Session, SessionSetup, Signal, binaries, eventually};

/// A session whose `make` runs its arguments as shell text.
fn setup() -> SessionSetup {
    let setup = SessionSetup::new().script("make", "eval \"$@\"");
    let path = format!("{}:/usr/bin:/bin", setup.tools().display());
    let setup = setup.env("PATH", &path);
    fs::write(setup.workspace().join("a"), "one\n").unwrap();
    fs::write(setup.workspace().join("c"), "three\n").unwrap();
    setup
}

fn make(session: &Session, text: &str) {
    let answer = session.answer(&session.exec("make", [text]));
    assert_eq!(answer.exit_code(), Some("0"), "{text}");
}

/// `aifo-coder` as the user of this session starts it.
fn coder(session: &Session, words: &[&str]) -> Command {
    let mut coder = Command::new(&binaries().coder);
    let run = session.scratch().join("run");
    coder.env_clear().env("HOME", session.scratch().join("home")).env("PATH", "/usr/bin:/bin");
    coder.env("TMPDIR", &run).env("XDG_RUNTIME_DIR", &run).current_dir(session.workspace());
    coder.args(words).stdin(Stdio::null());
    coder
}

fn text(session: &Session, words: &[&str]) -> String {
    Outcome::of(&mut coder(session, words)).exited(0).text()
}

fn git(root: &Path, words: &str) -> String {
    let mut git = Command::new("/usr/bin/git");
    git.args(["-c", "user.name=a", "-c", "user.email=a"]).args(words.split(' '));
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(root);
    String::from_utf8(git.output().unwrap().stdout).unwrap()
}

fn read(session: &Session, name: &str) -> String {
    fs::read_to_string(session.workspace().join(name)).unwrap_or_else(|_| "-".to_owned())
}

const CHANGES: &str = "echo two > a; mkdir d; echo x > d/b; rm c";

fn changed(session: &Session) -> [String; 3] {
    ["a", "c", "d/b"].map(|name| read(session, name))
}

#[test]
fn what_a_call_changed_is_shown_and_put_back() {
    let session = setup().start();
    make(&session, CHANGES);
    let shown = text(&session, &["changes"]);
    for part in ["make \"echo two", "M a  +1 -1", "D c  +0 -1", "A d/b  +1 -0"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let patch = text(&session, &["changes", "--patch", "a"]);
    assert!(patch.contains("--- a/a\n+++ b/a\n") && patch.contains("-one\n+two\n"), "{patch}");
    assert!(!patch.contains("b/d/b"), "{patch}");
    assert!(text(&session, &["log"]).contains("# 3 files, +2 -2"), "{}", text(&session, &["log"]));
    let undone = text(&session, &["undo", "--yes"]);
    assert!(undone.contains("  delete   d/b"), "{undone}");
    assert_eq!(changed(&session), ["one\n", "three\n", "-"]);
    assert!(!session.workspace().join("d").exists());
    text(&session, &["undo", "--yes", "undo-1"]);
    assert_eq!(changed(&session), ["two\n", "-", "x\n"]);
}

#[test]
fn what_no_undo_brings_back_is_named() {
    let setup = setup();
    fs::write(setup.workspace().join(".env"), "KEY=1\n").unwrap();
    fs::create_dir(setup.workspace().join("node_modules")).unwrap();
    let session = setup.start();
    make(&session, "echo 1 > a");
    make(&session, "rm -r .env node_modules");
    let shown = text(&session, &["changes"]);
    for name in [".env", "node_modules"] {
        let line = format!("    D {name}  not covered: no undo brings it back\n");
        assert!(shown.contains(&line), "{shown}");
    }
    text(&session, &["undo", "--yes"]);
    assert_eq!(read(&session, "a"), "one\n", "the call before is the last that can be undone");
}

#[test]
fn a_secret_under_another_name_and_damaged_references_are_kept_and_named() {
    let setup = setup();
    fs::write(setup.workspace().join(".env"), "KEY=1\n").unwrap();
    git(&setup.workspace(), "init -q");
    git(&setup.workspace(), "commit -q --allow-empty -m x");
    let session = setup.start();
    make(&session, "mv .env moved; echo garbage > .git/packed-refs");
    let undone = Outcome::of(&mut coder(&session, &["undo", "--yes"]));
    let shown = undone.text() + &undone.stderr;
    for line in [
        "moved  # it may be what was moved from a name that is not covered",
        "packed-refs  # it is damaged",
    ] {
        assert!(shown.contains(line), "{line}: {undone:?}");
    }
    assert_eq!(read(&session, "moved"), "KEY=1\n");
    let unknown = Outcome::of(&mut coder(&session, &["undo", "--yes", "nothing"]));
    assert!(
        unknown.exited(2).stderr.contains("'nothing' is no call of session 'serve"),
        "{unknown:?}"
    );
}

#[test]
fn one_undo_after_the_other_goes_further_back() {
    let session = setup().start();
    for number in 1..=3 {
        make(&session, &format!("echo {number} > a"));
    }
    for expected in ["2\n", "1\n", "one\n"] {
        text(&session, &["undo", "--yes"]);
        assert_eq!(read(&session, "a"), expected);
    }
    let none = Outcome::of(&mut coder(&session, &["undo", "--yes"]));
    assert!(none.exited(1).stderr.contains("no call of the session is left to undo"));
}

#[test]
fn an_undo_asks_first() {
    let session = setup().start();
    make(&session, CHANGES);
    let refused = Outcome::of(&mut coder(&session, &["undo"]));
    assert!(refused.exited(2).stderr.contains("--yes"));
    assert_eq!(changed(&session), ["two\n", "-", "x\n"]);
}

#[test]
fn it_works_after_the_end_of_a_session_and_after_its_launcher_was_killed() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut session = setup().start();
        make(&session, CHANGES);
        if signal == Signal::SIGKILL {
            text(&session, &["changes"]);
        }
        session.end(signal);
        text(&session, &["undo", "--yes"]);
        assert_eq!(changed(&session), ["one\n", "three\n", "-"], "{signal}");
    }
}

#[test]
fn later_changes_stay() {
    let session = setup().start();
    let lines: String = (0..9).map(|number| format!("{number}\n")).collect();
    fs::write(session.workspace().join("a"), &lines).unwrap();
    make(&session, "sed -i s/1/one/ a; echo x > new; echo y > other");
    text(&session, &["changes"]);
    let merged = read(&session, "a").replace('7', "seven");
    fs::write(session.workspace().join("a"), merged).unwrap();
    fs::write(session.workspace().join("other"), "mine\n").unwrap();
    let undone = Outcome::of(&mut coder(&session, &["undo", "--yes"]));
    let shown = undone.exited(1).text();
    assert!(shown.contains("  merge    a") && shown.contains("  keep     other"), "{shown}");
    assert_eq!(read(&session, "a"), lines.replace('7', "seven"));
    assert_eq!([read(&session, "new"), read(&session, "other")], ["-", "mine\n"]);
}

#[test]
fn a_path_through_a_link_is_never_written() {
    let setup = setup();
    let outside = setup.scratch().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("b"), "outside\n").unwrap();
    let session = setup.start();
    make(&session, "mkdir d; echo x > d/b");
    make(&session, "rm -r d");
    text(&session, &["changes"]);
    symlink(&outside, session.workspace().join("d")).unwrap();
    let undone = Outcome::of(&mut coder(&session, &["undo", "--yes"]));
    assert_ne!(undone.code(), Some(0), "{}", undone.text());
    assert_eq!(fs::read_to_string(outside.join("b")).unwrap(), "outside\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn git_is_put_back_without_its_hooks() {
    let session = setup().start();
    let root = session.workspace();
    let git = |words: &str| git(&root, words);
    git("init -q");
    for message in ["one", "two"] {
        fs::write(root.join("a"), message).unwrap();
        git("add .");
        git(&format!("commit -q -m {message}"));
    }
    git("branch side");
    fs::write(root.join("untracked"), "u").unwrap();
    let states = || ["log --format=%s", "status --short", "branch"].map(git);
    let before = states();
    let hook = root.join(".git/hooks/reference-transaction");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    text(&session, &["changes"]);
    make(&session, "git reset -q --hard HEAD~1; git clean -fdxq; git branch -q -D side");
    assert_ne!(states(), before);
    fs::write(&hook, "#!/bin/sh\ntouch ran\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let undone = Outcome::of(&mut coder(&session, &["undo", "--yes"]));
    assert_eq!(undone.code(), Some(0), "{}", undone.text());
    assert!(!root.join("ran").exists());
    fs::remove_file(&hook).unwrap();
    assert_eq!(states(), before);
}

#[test]
fn a_branch_comes_back_where_deeper_ones_were() {
    let session = setup().start();
    let root = session.workspace();
    let git = |words: &str| git(&root, words);
    git("init -q");
    git("commit -q --allow-empty -m one");
    git("branch old");
    let before = git("branch");
    text(&session, &["changes"]);
    make(&session, "git branch -q -D old; git branch old/deep");
    text(&session, &["undo", "--yes"]);
    assert_eq!(git("branch"), before);
}

#[test]
fn an_undo_elsewhere_needs_the_name_of_a_session() {
    let session = setup().start();
    make(&session, CHANGES);
    let mut elsewhere = coder(&session, &["undo", "--yes"]);
    elsewhere.current_dir(session.scratch());
    assert!(Outcome::of(&mut elsewhere).exited(1).stderr.contains("no session of this directory"));
    assert_eq!(changed(&session), ["two\n", "-", "x\n"]);
}

#[test]
fn secrets_and_large_files_are_left_out_and_named() {
    let session = setup().start();
    let root = session.workspace();
    fs::write(root.join(".env"), "TOKEN=hunter2").unwrap();
    text(&session, &["changes"]);
    make(&session, "rm .env; echo x > a");
    let undone = Outcome::of(&mut coder(&session, &["undo", "--yes"]));
    let shown = undone.exited(1).text();
    assert!(shown.contains("keep     .env  # its name is that of a secret"), "{shown}");
    assert!(!has_text(&session.scratch().join("home"), b"hunter2"));
}

#[test]
fn a_history_can_be_turned_off_and_removed() {
    let setup = setup();
    let config = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "[history]\nenabled = false\n").unwrap();
    let mut session = setup.start();
    make(&session, CHANGES);
    let none = Outcome::of(&mut coder(&session, &["undo", "--yes"]));
    assert!(none.exited(1).stderr.contains("has no history"));
    session.end(Signal::SIGTERM);

    let mut session = self::setup().start();
    make(&session, CHANGES);
    let running = Outcome::of(&mut coder(&session, &["clean", "--history"]));
    assert!(running.exited(1).stderr.contains("aifo-coder stop"));
    session.end(Signal::SIGTERM);
    text(&session, &["clean", "--history"]);
    let store = session.scratch().join("home/.local/state/aifo/history");
    eventually("the store is gone", || fs::read_dir(&store).unwrap().count() == 0);
}

fn has_text(directory: &Path, text: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().flatten().any(|entry| match entry.path().is_dir() {
        true => has_text(&entry.path(), text),
        false => fs::read(entry.path()).is_ok_and(|it| it.windows(text.len()).any(|at| at == text)),
    })
}
