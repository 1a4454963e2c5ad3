//! Tools that exceed the session's time limit.
//!
//! Proves `spec/toolexec.md#time-limit`.

use std::fs;
use std::path::Path;

use aifo_tests::{Outcome, Session, SessionSetup, eventually, fresh_id, tagged_processes};

fn session() -> Session {
    SessionSetup::new().max_secs(1).start()
}

#[test]
fn v1_answers_504_with_what_was_printed() {
    let session = session();
    let answer = session.answer(&session.exec("make", ["wait"]).proto("1"));
    assert_eq!(answer.status_line, "HTTP/1.1 504 Gateway Timeout");
    assert_eq!((answer.exit_code(), answer.text().as_str()), (Some("124"), "ready\ntimeout\n"));
}

#[test]
fn v2_goes_on_until_the_tool_has_ended() {
    let session = session();
    let answer = session.answer(&session.exec("make", ["catch"]));
    assert_eq!((answer.status(), answer.trailer("X-Exit-Code")), (200, Some("124")));
    assert_eq!(answer.text(), "ready\nSIGINT\n", "the tool's last words are sent");
}

#[test]
fn the_shim_exits_124() {
    let session = session();
    let outcome = Outcome::of(session.shim("make").arg("wait"));
    assert_eq!(outcome.exited(124).text(), "ready\n");
}

#[test]
fn a_tool_that_is_in_time_is_left_alone() {
    let session = SessionSetup::new().max_secs(3600).start();
    let answer = session.answer(&session.exec("make", ["exit", "3"]));
    assert_eq!(answer.exit_code(), Some("3"));
}

/// INT at T, TERM at T + 5 s, KILL at T + 10 s.
#[test]
fn who_ignores_int_and_term_is_killed_with_its_family() {
    let session = session();
    let (id, printed) = (fresh_id(), session.file("told"));
    let recording = session.send(&session.exec("make", ["record", &printed]).id(&id));
    let (family, leaf) = (fresh_id(), session.file("leaf"));
    let tree = session.exec("make", ["stubborn-tree", &leaf]).id(&family).proto("1");
    let tree = session.send(&tree);
    eventually("the family is complete", || Path::new(&leaf).exists());

    assert_eq!(recording.answer().trailer("X-Exit-Code"), Some("124"));
    assert_eq!(fs::read_to_string(printed).unwrap(), "ready\nSIGINT\nSIGTERM\n");
    let tree = tree.answer();
    assert_eq!((tree.status(), tree.exit_code()), (504, Some("124")));
    eventually("nothing of the execs is left", || {
        tagged_processes(&id).is_empty() && tagged_processes(&family).is_empty()
    });
}

#[test]
fn the_environment_sets_the_limit_too() {
    let none = SessionSetup::new().env("AIFO_TOOLEEXEC_MAX_SECS", "1").max_secs(0).start();
    let go = none.file("go");
    let mut unlimited = none.send(&none.exec("make", ["hold", &go]));
    unlimited.read_until(b"first\n");
    for name in ["AIFO_TOOLEEXEC_MAX_SECS", "AIFO_TOOLEEXEC_TIMEOUT_SECS"] {
        let session = SessionSetup::new().env(name, "1").start();
        let answer = session.answer(&session.exec("make", ["wait"]));
        assert_eq!(answer.exit_code(), Some("124"), "{name}");
    }
    // Two sessions with the same limit have reached it by now.
    fs::write(go, "").unwrap();
    assert_eq!(unlimited.answer().exit_code(), Some("0"), "the flag wins, and 0 is none");
}

#[test]
fn a_client_that_does_not_read_does_not_stretch_it() {
    let session = session();
    let id = fresh_id();
    let endless = (1u64 << 40).to_string();
    let mut call = session.send(&session.exec("make", ["emit", &endless, "1"]).id(&id));
    call.read_until(b"\r\n\r\n");
    eventually("the tool was ended", || tagged_processes(&id).is_empty());
    assert_eq!(call.answer().exit_code(), Some("124"));
}
