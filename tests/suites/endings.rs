//! A lost proxy, runner or guard never looks like success.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use aifo_tests::{
    Outcome, Running, Session, SessionSetup, Sidecar, Signal, eventually, fresh_id, send_signal,
    tagged_processes,
};

/// One kind, so there is one sidecar.
fn session_with_one_sidecar() -> (Session, Sidecar) {
    let session = SessionSetup::new().kinds(&["c-cpp"]).start();
    let sidecar = session.sidecars()[0];
    (session, sidecar)
}

/// Kills the process that `victim` selects while a shim streams.
#[track_caller]
fn lost(victim: impl Fn(&Session, Sidecar) -> i32) -> Outcome {
    let (session, sidecar) = session_with_one_sidecar();
    let shim = Running::start(session.shim("make").arg("wait"));
    shim.expect("ready\n");
    send_signal(victim(&session, sidecar), Signal::SIGKILL);
    shim.finish()
}

#[test]
fn a_lost_proxy_is_125_and_one_line() {
    let outcome = lost(|session, _| session.pid());
    assert_eq!(outcome.exited(125).text(), "ready\n");
    let line = outcome.only_line();
    assert!(line.starts_with("aifo-shim: ") && line.contains("proxy"), "{line}");
}

#[test]
fn a_lost_runner_is_125_and_one_line() {
    let outcome = lost(|_, sidecar| sidecar.runner);
    assert_eq!(outcome.exited(125).text(), "ready\n");
    let line = outcome.only_line();
    assert!(line.starts_with("aifo-shim: "), "{line}");
}

/// The runner survives its guard, ends its tools and reports their endings.
#[test]
fn a_lost_guard_ends_the_tool_and_its_real_ending_is_reported() {
    let outcome = lost(|_, sidecar| sidecar.guard);
    assert_eq!(outcome.died_of(Signal::SIGINT).text(), "ready\n");
}

#[test]
fn the_proxy_reports_a_lost_runner_in_the_trailer_or_the_status() {
    let (session, sidecar) = session_with_one_sidecar();
    let v2 = session.send_ready(&session.exec("make", ["wait"]));
    let (id, ready) = (fresh_id(), session.file("ready"));
    let v1 = session.send(&session.exec("make", ["quiet", &ready]).id(&id).proto("1"));
    eventually("both run", || fs::exists(&ready).unwrap());
    send_signal(sidecar.runner, Signal::SIGKILL);

    let v2 = v2.answer();
    assert_eq!((v2.status(), v2.trailer("X-Exit-Code")), (200, Some("125")));
    let v1 = v1.answer();
    assert_eq!(v1.status_line, "HTTP/1.1 500 Internal Server Error");
    assert_eq!(v1.header("X-Exit-Code"), Some("125"));
    assert!(v1.text().starts_with("aifo-coder mailbox error: "), "{}", v1.text());
    eventually("the tools went with their runner", || tagged_processes(&id).is_empty());
}

#[test]
fn after_a_lost_runner_the_proxy_still_answers() {
    let (session, sidecar) = session_with_one_sidecar();
    let call = session.send_ready(&session.exec("make", ["wait"]));
    send_signal(sidecar.runner, Signal::SIGKILL);
    call.answer();
    let unauthorized = session.exec("make", ["say"]).with("Authorization", "wrong");
    assert_eq!(session.answer(&unauthorized).status(), 401);
    let next = session.answer(&session.exec("make", ["say", "again"]));
    let honest = match next.status() {
        // Restarted, or reported that nothing ran.
        200 => next.exit_code() == Some("0") && next.text() == "again\n",
        409 | 500 => next.exit_code() == Some("86"),
        _ => false,
    };
    assert!(honest, "{next:?}");
}

#[test]
fn a_lost_connection_exits_0_only_for_who_asks() {
    for (value, code) in [("1", 0), ("0", 125)] {
        let (session, _) = session_with_one_sidecar();
        let mut command = session.shim("make");
        command.arg("wait").env("AIFO_SHIM_EXIT_ZERO_ON_DISCONNECT", value);
        let shim = Running::start(&mut command);
        shim.expect("ready\n");
        send_signal(session.pid(), Signal::SIGKILL);
        shim.finish().exited(code);
    }
}

#[test]
fn a_refused_call_exits_86_with_the_reason() {
    let session = SessionSetup::new().kinds(&["c-cpp"]).without("ninja").start();
    let rows = [
        ("ls", "forbidden: tool 'ls' is not allowed in the c-cpp sidecar"),
        ("cargo", "tool 'cargo' not available in running sidecars"),
        ("ninja", "tool 'ninja' not available in running sidecars"),
    ];
    for (tool, reason) in rows {
        let outcome = Outcome::of(session.shim(tool).arg("say"));
        assert_eq!(outcome.exited(86).text(), "", "stdout is the tool's alone");
        assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
    }
    let wrong = Outcome::of(session.shim("make").env("AIFO_TOOLEEXEC_TOKEN", "wrong"));
    assert!(wrong.exited(86).stderr.contains("unauthorized"), "{}", wrong.stderr);
    let outside = Outcome::of(session.shim("make").arg("say").current_dir("/"));
    assert!(outside.exited(86).stderr.contains("bad request: "), "{}", outside.stderr);
}

#[test]
fn the_end_of_a_pipeline_ends_the_tool_and_runs_it_once() {
    let session = Session::start();
    let (id, ran) = (fresh_id(), session.file("ran"));
    let mut command = session.shim("make");
    command.args(["count-emit", &ran, &(1u64 << 40).to_string()]).env("AIFO_EXEC_ID", &id);
    let mut shim = command.stdout(Stdio::piped()).spawn().expect("the shim starts");
    let mut line = Vec::new();
    let mut head = BufReader::new(shim.stdout.take().expect("stdout is a pipe"));
    head.read_until(b'\n', &mut line).expect("there is a line");
    drop(head);

    eventually("the shim has ended", || {
        shim.try_wait().expect("try_wait works on a child").is_some()
    });
    let status = shim.wait().expect("wait works on a child");
    assert!(!status.success(), "the tool did not end by itself: {status}");
    eventually("nothing of the exec is left", || tagged_processes(&id).is_empty());
    assert_eq!(fs::read_to_string(ran).unwrap(), "ran\n");
}

/// A tool may exit with 125 itself; only an unknown ending prints a line.
#[test]
fn a_tools_own_125_is_not_commented() {
    let session = Session::start();
    let outcome = Outcome::of(session.shim("make").args(["exit", "125"]));
    assert_eq!((outcome.exited(125).stderr.as_str(), outcome.text().as_str()), ("", ""));
    let answer = session.answer(&session.exec("make", ["exit", "125"]));
    assert_eq!((answer.trailer("X-Aifo-Ending"), answer.exit_code()), (None, Some("125")));
}

#[test]
fn an_unknown_ending_has_a_trailer_of_its_own() {
    let (session, sidecar) = session_with_one_sidecar();
    let call = session.send_ready(&session.exec("make", ["wait"]));
    send_signal(sidecar.runner, Signal::SIGKILL);
    let answer = call.answer();
    let end = b"\r\n0\r\nX-Aifo-Ending: unknown\r\nX-Exit-Code: 125\r\n\r\n";
    assert!(answer.raw.ends_with(end), "{}", answer.raw.escape_ascii());
    assert_eq!(answer.header("Trailer"), Some("X-Exit-Code"));
}
