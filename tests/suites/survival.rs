//! No process survives a forced end of its exec: the search of `/proc` for exec tags finds none.
//!
//! Proves `spec/toolexec.md#disconnect`, `spec/runner.md#exec-tag`, `spec/runner.md#the-guard`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use aifo_tests::{
    Connection, Listen, Running, Session, SessionSetup, Signal, eventually, fresh_id, is_alive,
    send_signal, tagged_processes,
};

/// A running exec whose tool has a child that is forked twice, has its own session and ignores all
/// signals but KILL. The tool prints nothing.
struct Family {
    id: String,
    call: Connection,
}

/// `tree` handles signals itself, `stubborn-tree` does not.
#[track_caller]
fn family(session: &Session, verb: &str, version: &str) -> Family {
    let id = fresh_id();
    let file = session.file(&id);
    let call = session.send(&session.exec("make", [verb, &file]).id(&id).proto(version));
    let leaf = leaf(session, &file);
    assert!(tagged_processes(&id).contains(&leaf), "the leaf has the exec tag");
    Family { id, call }
}

#[track_caller]
fn leaf(session: &Session, file: &str) -> i32 {
    eventually("the family is complete", || Path::new(file).exists());
    session.process(fs::read_to_string(file).unwrap().parse().expect("the leaf writes its pid"))
}

#[track_caller]
fn check_gone(id: &str) {
    eventually("nothing of the exec is left", || tagged_processes(id).is_empty());
}

#[test]
fn int_term_and_kill_take_the_whole_family() {
    let session = Session::start();
    for (signal, code) in [("INT", "130"), ("TERM", "143"), ("KILL", "137")] {
        for version in ["1", "2"] {
            let family = family(&session, "tree", version);
            assert_eq!(session.signal(&family.id, signal).status(), 204);
            assert_eq!(family.call.answer().exit_code(), Some(code));
            check_gone(&family.id);
        }
    }
    let stubborn = family(&session, "stubborn-tree", "2");
    assert_eq!(session.signal(&stubborn.id, "KILL").status(), 204);
    assert_eq!(stubborn.call.answer().exit_code(), Some("137"));
    check_gone(&stubborn.id);
}

#[test]
fn ctrl_c_at_the_shim_takes_the_whole_family() {
    let session = Session::start();
    let id = fresh_id();
    let file = session.file(&id);
    let mut command = session.shim("make");
    // In version 3, a child that blocks every signal survives, as natively.
    command.args(["tree", &file]).env("AIFO_EXEC_ID", &id).env("AIFO_SHIM_PROTO", "2");
    let shim = Running::start(&mut command);
    leaf(&session, &file);
    shim.signal(Signal::SIGINT);
    shim.finish().exited(130);
    check_gone(&id);
}

#[test]
fn a_disconnect_takes_the_whole_family() {
    for listen in [Listen::Default, Listen::Tcp] {
        let session = SessionSetup::new().listen(listen).start();
        for version in ["1", "2"] {
            let family = family(&session, "stubborn-tree", version);
            drop(family.call);
            check_gone(&family.id);
            let printed =
                session.log_lines(&[&format!("aifo-coder: disconnect exec_id={}", family.id)]);
            assert_eq!(printed.len(), 1, "{printed:?}");
        }
    }
}

#[test]
fn a_killed_shim_takes_the_whole_family() {
    let session = Session::start();
    let id = fresh_id();
    let file = session.file(&id);
    let mut command = session.shim("make");
    let shim = Running::start(command.args(["stubborn-tree", &file]).env("AIFO_EXEC_ID", &id));
    leaf(&session, &file);
    shim.signal(Signal::SIGKILL);
    assert_eq!(shim.finish().signal(), Some(9));
    check_gone(&id);
}

#[test]
fn a_stopped_tool_does_not_outlive_its_client() {
    let session = Session::start();
    let family = family(&session, "stubborn-tree", "2");
    for pid in tagged_processes(&family.id) {
        send_signal(pid, Signal::SIGSTOP);
    }
    drop(family.call);
    check_gone(&family.id);
}

#[test]
fn the_end_of_the_proxy_takes_every_family() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut session = Session::start();
        let families = ["tree", "stubborn-tree", "tree"].map(|verb| family(&session, verb, "2"));
        let sidecars = session.sidecars();
        assert_eq!(session.end(signal).code(), Some(0), "a graceful stop");
        for family in &families {
            assert!(tagged_processes(&family.id).is_empty(), "ended before the proxy");
        }
        for sidecar in sidecars {
            assert!(!is_alive(sidecar.guard) && !is_alive(sidecar.runner));
        }
    }
}

#[test]
fn kill_9_of_proxy_runner_or_guard_takes_every_family() {
    for victim in ["proxy", "runner", "guard"] {
        let session = SessionSetup::new().kinds(&["c-cpp"]).start();
        let families = ["tree", "stubborn-tree"].map(|verb| family(&session, verb, "2"));
        let sidecar = session.sidecars()[0];
        send_signal(session.pid_of(victim), Signal::SIGKILL);
        for family in &families {
            check_gone(&family.id);
        }
        eventually("the runner has ended", || !is_alive(sidecar.runner));
    }
}

#[test]
fn after_a_normal_exit_background_children_live_until_the_session_ends() {
    let mut session = Session::start();
    let id = fresh_id();
    let file = session.file(&id);
    let answer = session.answer(&session.exec("make", ["daemon", &file]).id(&id));
    assert_eq!(answer.exit_code(), Some("0"));
    let leaf = leaf(&session, &file);
    assert!(is_alive(leaf));
    assert_eq!(session.answer(&session.exec("make", ["say"])).exit_code(), Some("0"));
    assert!(is_alive(leaf), "as it would natively");
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    check_gone(&id);
}

/// Starts a tool that records its signals. Returns id, file and connection once it listens.
fn record(session: &Session) -> (String, String, Connection) {
    let (id, printed) = (fresh_id(), session.file("told"));
    let call = session.send(&session.exec("make", ["record", &printed]).id(&id));
    let recorded = || fs::read_to_string(&printed).unwrap_or_default();
    eventually("the tool listens", || recorded() == "ready\n");
    (id, printed, call)
}

/// A client that sends a signal and disconnects leaves the tool time to handle the signal.
#[test]
fn a_disconnect_right_after_a_signal_leaves_the_tool_five_seconds() {
    let session = Session::start();
    let (id, printed, call) = record(&session);
    let recorded = || fs::read_to_string(&printed).unwrap_or_default();
    assert_eq!(session.signal(&id, "USR1").status(), 204);
    let disconnected = Instant::now();
    drop(call);
    eventually("the tool gets a further signal", || recorded().lines().count() > 2);
    let waited = disconnected.elapsed();
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
    assert_eq!(recorded(), "ready\nSIGUSR1\nSIGTERM\n");
    check_gone(&id);
    let waited = disconnected.elapsed();
    assert!(waited >= Duration::from_secs(7), "{waited:?}");
    assert_eq!(recorded(), "ready\nSIGUSR1\nSIGTERM\n");
}

/// The end of the session does not wait for a tool that handles a signal.
#[test]
fn the_sessions_end_escalates_at_once_though_a_signal_was_sent() {
    let mut session = Session::start();
    let (id, printed, call) = record(&session);
    let recorded = || fs::read_to_string(&printed).unwrap_or_default();
    assert_eq!(session.signal(&id, "USR1").status(), 204);
    drop(call);
    eventually("the disconnect is logged", || !session.log_lines(&["disconnect", &id]).is_empty());
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    check_gone(&id);
    assert_eq!(recorded(), "ready\nSIGUSR1\nSIGINT\nSIGTERM\n");
}

#[test]
fn a_disconnect_is_int_then_term_then_kill() {
    let session = Session::start();
    let (id, printed, call) = record(&session);
    let heard = || fs::read_to_string(&printed).unwrap_or_default();
    drop(call);
    check_gone(&id);
    assert_eq!(heard(), "ready\nSIGINT\nSIGTERM\n");
}

/// Forked twice, with its own session and an empty environment: only the process tree identifies
/// it, and that ends with the session.
#[test]
fn a_process_without_its_exec_tag_ends_with_the_session() {
    for how in ["end", "proxy", "runner", "guard"] {
        let mut session = SessionSetup::new().kinds(&["c-cpp"]).start();
        let (id, file) = (fresh_id(), session.file("leaf"));
        let answer = session.answer(&session.exec("make", ["bare-daemon", &file]).id(&id));
        assert_eq!(answer.exit_code(), Some("0"), "{}", answer.text());
        let leaf = leaf(&session, &file);
        assert!(
            tagged_processes(&id).is_empty() && is_alive(leaf),
            "it has lost its mark and lives on"
        );
        match how {
            "end" => {
                assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
                assert!(!is_alive(leaf), "ended before the proxy");
            }
            "proxy" => _ = session.end(Signal::SIGKILL),
            process => send_signal(session.pid_of(process), Signal::SIGKILL),
        }
        eventually(&format!("{how}: the leaf is gone"), || !is_alive(leaf));
    }
}

/// Fifty processes that each start another on TERM.
#[test]
fn processes_that_multiply_on_term_are_killed() {
    let mut session = Session::start();
    let heads = |file: &str| fs::read_to_string(file).unwrap_or_default().lines().count();
    let grow = |session: &Session| {
        let (id, file) = (fresh_id(), session.file(&fresh_id()));
        let call = session.send(&session.exec("make", ["hydra", "50", &file]).id(&id));
        eventually("all heads are there", || heads(&file) == 50);
        (id, file, call)
    };
    let (id, file, call) = grow(&session);
    drop(call);
    check_gone(&id);
    assert!(heads(&file) > 50, "they did multiply");

    let (id, _, mut call) = grow(&session);
    assert_eq!(session.signal(&id, "KILL").status(), 204);
    call.read_until(b"X-Exit-Code: 137\r\n");
    check_gone(&id);

    let (id, _, _call) = grow(&session);
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    assert!(tagged_processes(&id).is_empty(), "ended before the proxy");
}

/// Its output is blocked, so its ending cannot be reported either.
#[test]
fn a_client_that_does_not_read_does_not_hold_up_the_end() {
    let mut session = Session::start();
    let id = fresh_id();
    let endless = (1u64 << 40).to_string();
    let mut call = session.send(&session.exec("make", ["emit", &endless, "1"]).id(&id));
    call.read_until(b"\r\n\r\n");
    assert_eq!(session.end(Signal::SIGTERM).code(), Some(0));
    assert!(tagged_processes(&id).is_empty(), "ended before the proxy");
}
