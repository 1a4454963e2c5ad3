//! `aifo-coder approve` at a terminal: its keys, several approvers, withdrawn questions.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::Duration;

use aifo_tests::{Session, Terminal, TerminalProcess, Tmux, can_run, eventually};

use super::rules::{CONFIG, approve, ruled, runs, user_file};
use super::{ended, shim, spawn};

struct Approver {
    terminal: Terminal,
    process: TerminalProcess,
}

impl Approver {
    #[track_caller]
    fn start(session: &Session, args: &[&str]) -> Self {
        let terminal = Terminal::sized(80, 24);
        let process = terminal.start(&approve(session, args));
        Approver { terminal, process }
    }

    /// Presses a key until the output has this text: keys are ignored at first.
    #[track_caller]
    fn press(&self, key: &str, until: &str) {
        eventually(&format!("'{key}' leads to {until:?}"), || {
            self.terminal.press(key);
            for _ in 0..10 {
                if self.terminal.shown().contains(until) {
                    return true;
                }
                thread::sleep(Duration::from_millis(20));
            }
            false
        });
    }

    #[track_caller]
    fn quit(self) {
        self.terminal.press("q");
        assert_eq!(self.process.finish(), Ok(0));
    }
}

#[track_caller]
fn session() -> Session {
    ruled(&format!("{CONFIG}[ask]\ntimeout_secs = 100\n"))
}

fn count(session: &Session, file: &str) -> Child {
    spawn(shim(session, "3", &["count", file]))
}

#[test]
fn every_key_has_its_answer() {
    let session = session();
    let approver = Approver::start(&session, &["--watch"]);
    approver.terminal.expect("no calls wait for approval");
    let rows = [("y", "once", 0), ("s", "session", 0), ("n", "deny", 86), ("e", "end", 86)];
    for (number, (key, option, code)) in rows.into_iter().enumerate() {
        let id = format!("q{}", number + 1);
        let call = count(&session, option);
        approver.terminal.expect(&format!("{id}  make count {option}"));
        approver.press(key, &format!("{id}: answered with '{option}' by approve (pid "));
        assert_eq!(ended(call).0, Some(code), "{key}");
    }
    // Covered by the answer for the session.
    assert_eq!(ended(count(&session, "session")).0, Some(0));
    assert_eq!([runs(&session, "once"), runs(&session, "session")], [1, 2]);
    approver.quit();
}

#[test]
fn always_is_confirmed_below_its_difference() {
    let session = session();
    let before = fs::read_to_string(user_file(session.scratch())).unwrap();
    let approver = Approver::start(&session, &["--watch"]);
    let call = count(&session, "ran");
    approver.terminal.expect("q1  make count ran");
    approver.press("a", "write this rule? y once more to confirm");
    approver.press("n", "not written, not answered");
    assert_eq!(fs::read_to_string(user_file(session.scratch())).unwrap(), before);
    approver.terminal.press("a");
    eventually("the difference is shown again", || {
        approver.terminal.shown().matches("y once more").count() == 2
    });
    approver.terminal.press("y");
    approver.terminal.expect("q1: answered with 'always' by approve");
    assert_eq!(ended(call).0, Some(0));
    let after = fs::read_to_string(user_file(session.scratch())).unwrap();
    let added = after.strip_prefix(&before).expect("only additions");
    let shown = approver.terminal.shown();
    for line in added.lines() {
        assert!(shown.contains(&format!("+{line}\r\n")), "{line}");
    }
    approver.quit();
}

#[test]
fn a_call_that_waits_is_shown_before_one_whose_client_has_left() {
    let session = session();
    let approver = Approver::start(&session, &["--watch"]);
    let mut left = count(&session, "left");
    approver.terminal.expect("q1  make count left");
    left.kill().unwrap();
    left.wait().unwrap();
    approver.terminal.expect("q1: its client has left; an answer covers a repetition");
    let waits = count(&session, "waits");
    approver.terminal.expect("q2  make count waits");
    approver.press("y", "q2: answered with 'once' by approve");
    assert_eq!(ended(waits).0, Some(0));
    // The other one is shown again.
    let shown = || approver.terminal.shown().matches("q1  make count left").count();
    eventually("it is shown again", || shown() == 2);
    approver.press("n", "q1: answered with 'deny' by approve");
    assert_eq!([runs(&session, "left"), runs(&session, "waits")], [0, 1]);
    approver.quit();
}

#[test]
fn a_question_that_ends_elsewhere_is_replaced_by_the_next() {
    let session = session();
    let one = Approver::start(&session, &["--watch"]);
    let other = Approver::start(&session, &["--watch"]);
    let first = count(&session, "first");
    for approver in [&one, &other] {
        approver.terminal.expect("q1  make count first");
    }
    one.press("n", "q1: answered with 'deny' by approve (pid ");
    let by = format!("q1: answered with 'deny' by approve (pid {})", one.process.pid());
    other.terminal.expect(&by);
    assert_eq!(ended(first).0, Some(86));
    // A key that is pressed as the question changes is ignored.
    let second = count(&session, "second");
    other.terminal.expect("q2  make count second");
    other.terminal.press("y");
    // The session answers a key within this time.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(runs(&session, "second"), 0);
    other.press("y", "q2: answered with 'once'");
    assert_eq!(ended(second).0, Some(0));
    // With a confirmation open, the question ends elsewhere: nothing is written.
    let before = fs::read_to_string(user_file(session.scratch())).unwrap();
    let third = count(&session, "third");
    other.terminal.expect("q3  make count third");
    one.terminal.expect("q3  make count third");
    other.press("a", "y once more to confirm");
    one.press("n", "q3: answered with 'deny'");
    other.terminal.press("y");
    other.terminal.expect("not written: the question has ended");
    assert_eq!(ended(third).0, Some(86));
    assert_eq!(fs::read_to_string(user_file(session.scratch())).unwrap(), before);
    one.quit();
    other.quit();
}

#[test]
fn pastes_and_sequences_of_keys_answer_nothing() {
    let session = session();
    let approver = Approver::start(&session, &["--watch"]);
    let call = count(&session, "ran");
    approver.terminal.expect("q1  make count ran");
    for keys in ["yes", "\u{1b}y", "\u{1b}Os", "y\r", "\u{1b}[200~y\u{1b}[201~"] {
        approver.terminal.press(keys);
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(runs(&session, "ran"), 0);
    approver.press("n", "q1: answered with 'deny'");
    assert_eq!(ended(call).0, Some(86));
    approver.quit();
}

#[test]
fn a_resized_terminal_still_answers_and_keeps_its_modes() {
    if !can_run("questions::terminal", &["tmux", "-V"]) {
        return;
    }
    let session = session();
    let call = count(&session, "ran");
    let mut shell = approve(&session, &[]);
    let approver = format!(
        "'{}' approve; stty -a | grep -o '.icanon'; read line",
        shell.get_program().to_string_lossy()
    );
    let variables: Vec<_> = shell
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    shell = std::process::Command::new("/bin/sh");
    shell.env_clear().envs(variables).env("PATH", "/usr/bin:/bin").args(["-c", &approver]);
    let tmux = Tmux::start(&shell);
    tmux.expect("q1  make count ran").resize(40, 10).resize(120, 40);
    tmux.until("the question", |screen| screen.contains("make count ran"));
    eventually("it is answered", || {
        tmux.press(&["y"]);
        runs(&session, "ran") == 1
    });
    assert_eq!(ended(call).0, Some(0));
    tmux.until("the modes before", |screen| screen.contains(" icanon"));
}
