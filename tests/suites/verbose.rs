//! Verbose output of proxy and shim, and their silence by default.
//!
//! Proves `spec/cli.md#messages`.

use aifo_tests::{Outcome, Session, SessionSetup, fresh_id};

#[test]
fn a_verbose_proxy_logs_start_and_end_of_every_exec() {
    let session = SessionSetup::new().verbose().start();
    let id = fresh_id();
    session.answer(&session.exec("make", ["exit", "3"]).id(&id));
    let starts = session.log_lines(&["aifo-coder: exec tool=make kind=c-cpp ", &id]);
    let [start] = &starts[..] else { panic!("{starts:?}") };
    assert!(start.contains(&format!(" cwd={}", session.workspace().display())), "{start}");
    assert!(start.contains(" argv="), "{start}");
    let mut ends = Vec::new();
    aifo_tests::eventually("the end is logged", || {
        ends = session.log_lines(&["aifo-coder: exec end", &format!("exec_id={id} ")]);
        !ends.is_empty()
    });
    let [end] = &ends[..] else { panic!("{ends:?}") };
    assert!(end.contains(" code=3") && end.contains(" ms="), "{end}");
}

/// The response does not report it.
#[test]
fn an_escalation_is_reported_by_the_log_alone() {
    let session = SessionSetup::new().max_secs(1).verbose().start();
    let answer = session.answer(&session.exec("make", ["catch"]));
    assert_eq!((answer.status(), answer.text().as_str()), (200, "ready\nSIGINT\n"));
    assert_eq!(session.log_lines(&["aifo-coder: ", "time limit reached"]).len(), 1);
}

#[test]
fn a_log_line_is_one_line_whatever_the_arguments_hold() {
    let session = SessionSetup::new().verbose().start();
    let id = fresh_id();
    session.answer(&session.exec("make", ["say", "a\nb\r\x1b[31m", "aifo-coder: forged"]).id(&id));
    for line in session.log().lines() {
        assert!(line.starts_with("aifo-coder: ") || line.starts_with("hint: "), "{line:?}");
        assert!(!line.contains(['\x1b', '\r']), "{line:?}");
    }
    assert_eq!(session.log_lines(&["exec tool=make", &id]).len(), 1);
}

#[test]
fn a_proxy_is_quiet_by_default() {
    let session = Session::start();
    let before = session.log();
    session.answer(&session.exec("make", ["say"]));
    session.answer(&session.exec("ls", ["say"]));
    assert_eq!(session.log(), before);
}

#[test]
fn only_a_verbose_proxy_pads_v1_with_newlines() {
    let session = SessionSetup::new().verbose().start();
    let v1 = session.answer(&session.exec("make", ["say", "hi"]).proto("1"));
    assert_eq!(v1.text(), "\nhi\n\n");
    let v2 = session.answer(&session.exec("make", ["say", "hi"]));
    assert_eq!(v2.text(), "hi\n");
}

#[test]
fn a_verbose_shim_prints_its_decision_on_stderr() {
    let session = Session::start();
    let mut command = session.shim("make");
    let outcome = Outcome::of(command.args(["say", "hi"]).env("AIFO_TOOLCHAIN_VERBOSE", "1"));
    assert_eq!(outcome.exited(0).text(), "hi\n", "stdout is the tool's alone");
    assert!(!outcome.stderr.is_empty());
    for line in outcome.stderr.lines() {
        assert!(line.starts_with("aifo-shim: "), "{line}");
    }
    assert!(outcome.stderr.contains("tool=make"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains(session.token()));
}

#[test]
fn a_shim_is_quiet_by_default() {
    let session = Session::start();
    for args in [&["say", "hi"][..], &["exit", "3"], &["die", "15"]] {
        let outcome = Outcome::of(session.shim("make").args(args));
        assert_eq!(outcome.stderr, "", "{args:?}");
    }
}
