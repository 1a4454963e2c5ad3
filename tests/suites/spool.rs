//! A buffered response whose output cannot be stored is an error, never a success.
//!
//! Proves `spec/toolexec.md#v1-buffered`.

use std::fs;
use std::path::PathBuf;

use aifo_tests::{Answer, RandomBytes, Session, SessionSetup, can_run};

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

fn emit(session: &Session, bytes: u64, version: &str) -> Answer {
    session.answer(&session.exec("make", ["emit", &bytes.to_string(), "5"]).proto(version))
}

/// Expects all output and the tool's code, or an error with an unknown ending.
#[track_caller]
fn check_honest(answer: &Answer, bytes: u64) {
    match answer.status() {
        200 => {
            assert_eq!((answer.exit_code(), answer.body.len() as u64), (Some("0"), bytes));
            RandomBytes::new(5).check(&answer.body);
        }
        _ => check_error(answer),
    }
}

#[track_caller]
fn check_error(answer: &Answer) {
    assert_eq!((answer.status(), answer.exit_code()), (500, Some("125")), "{}", answer.text());
    let text = answer.text();
    assert!(text.starts_with("aifo-coder mailbox error: "), "{text}");
    assert!(text.contains("output") && text.lines().count() == 1, "{text}");
}

/// TMPDIR of the tools, where output that is too large for memory is stored.
fn spool_dir(session: &Session) -> PathBuf {
    let env = session.answer(&session.exec("make", ["env"])).text();
    let dir = env.lines().find_map(|line| line.strip_prefix("TMPDIR="));
    dir.expect("a tool has its TMPDIR").into()
}

#[test]
fn where_nothing_can_be_spooled_large_output_is_an_error() {
    let session = Session::start();
    // Root may write anywhere, so the directory is removed.
    fs::remove_dir(spool_dir(&session)).unwrap();
    check_error(&emit(&session, 8 * MIB, "1"));
    check_honest(&emit(&session, 512 * KIB, "1"), 512 * KIB);
    assert_eq!(emit(&session, 512 * KIB, "1").status(), 200, "that fits into memory");
    let streamed = emit(&session, 8 * MIB, "2");
    assert_eq!(streamed.exit_code(), Some("0"), "nothing is spooled for version 2");
    RandomBytes::new(5).check(&streamed.body);
}

/// The disk is full in the middle of the output, or just before its end.
#[test]
fn a_disk_that_is_full_is_an_error_wherever_it_ends() {
    let test = "spool::a_disk_that_is_full_is_an_error_wherever_it_ends";
    if !can_run(test, &["/usr/bin/unshare", "--mount", "/bin/mount", "-t", "tmpfs", "x", "/mnt"]) {
        return;
    }
    // A temporary directory of 3 MiB that only the session can see.
    let setup = SessionSetup::new();
    let tmp = setup.scratch().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let script = "/bin/mount -t tmpfs -o size=3m tmpfs \"$TMPDIR\" && exec \"$@\"";
    let wrapper = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", script, "sh"];
    let session = setup.env("TMPDIR", tmp.to_str().unwrap()).through(&wrapper).start();
    for bytes in (2 * MIB..6 * MIB).step_by(64 * 1024) {
        check_honest(&emit(&session, bytes, "1"), bytes);
    }
    check_error(&emit(&session, 64 * MIB, "1"));
    assert_eq!(emit(&session, 2 * MIB, "1").status(), 200, "nothing of the others is left");
}
