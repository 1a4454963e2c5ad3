//! A tool that cannot be started ends as in a shell.
//!
//! Proves `spec/toolexec.md#exit-codes`.

use aifo_tests::{Outcome, Session, SessionSetup, Tool};

fn session(content: &[u8], mode: u32) -> Session {
    SessionSetup::new().tool("gcc", Tool::File(content.to_vec(), mode)).start()
}

/// Through raw versions 1 and 2 and through the shim: the same cause and exit code.
#[track_caller]
fn check(session: &Session, exit_code: i32, cause: &str) {
    for version in ["1", "2"] {
        let answer = session.answer(&session.exec("gcc", ["x"]).proto(version));
        assert_eq!(answer.status(), 500);
        assert_eq!(answer.exit_code(), Some(&*exit_code.to_string()));
        let text = answer.text();
        assert!(text.starts_with("aifo-coder mailbox error: "), "{text}");
        assert!(text.to_lowercase().contains(cause), "{text}");
    }
    let outcome = Outcome::of(session.shim("gcc").arg("x"));
    assert_eq!(outcome.exited(exit_code).text(), "");
    assert!(outcome.only_line().to_lowercase().contains(cause), "{}", outcome.stderr);
}

#[test]
fn a_missing_interpreter_is_127() {
    check(&session(b"#!/no/such/interpreter\n", 0o755), 127, "not found");
}

#[test]
fn a_file_without_the_right_to_execute_is_126() {
    check(&session(b"#!/bin/sh\nexit 0\n", 0o644), 126, "permission denied");
}

#[test]
fn a_file_that_is_no_program_is_126() {
    check(&session(b"\x7fELF, it says", 0o755), 126, "exec format error");
}

/// A shell would interpret it; no shell is involved.
#[test]
fn a_text_without_an_interpreter_line_is_no_program() {
    check(&session(b"exit 0\n", 0o755), 126, "exec format error");
}

#[test]
fn a_failed_start_leaves_the_session_as_it_was() {
    let session = session(b"#!/no/such/interpreter\n", 0o755);
    let runner = session.sidecars()[0].runner;
    let fds = aifo_tests::fd_count(session.pid());
    for _ in 0..50 {
        assert_eq!(session.answer(&session.exec("gcc", ["x"]).id("same-id")).status(), 500);
    }
    assert_eq!(session.answer(&session.exec("make", ["say", "on"]).id("same-id")).text(), "on\n");
    aifo_tests::eventually("no fd is left open", || aifo_tests::fd_count(session.pid()) <= fds);
    assert!(aifo_tests::is_alive(runner));
}
