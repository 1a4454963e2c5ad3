//! SIGKILL to each party of a call in each state: callers are notified at once, no process
//! survives, the terminal is restored, and the next call works.

mod call;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use aifo_tests::frames::{frame, kind};
use aifo_tests::{
    Client, Invocation, Outcome, Running, Session, SessionSetup, Signal, Terminal, eventually,
    fresh_id, is_alive, is_stopped, send_signal, tagged_processes,
};

use call::{CALL_STATES, Call, CallState, Caller, Manner};

#[track_caller]
fn check_gone(id: &str, row: &str) {
    eventually(&format!("{row}: nothing of the exec is left"), || tagged_processes(id).is_empty());
}

/// After any kill, the next call works. While the old sidecar ends, it may report that nothing ran
/// or that the ending is unknown, but never success.
#[track_caller]
fn check_next(session: &Session, row: &str) {
    eventually(&format!("{row}: the next is served"), || {
        let outcome = Outcome::of(session.shim("ninja").args(["say", "next"]));
        let is_served = ![Some(86), Some(125)].contains(&outcome.code());
        is_served && outcome.exited(0).text() == "next\n"
    });
}

/// Expects one line that the ending is unknown.
#[track_caller]
fn check_unknown(ending: Result<i32, i32>, said: &str, row: &str) {
    assert_eq!(ending, Ok(125), "{row}: {said}");
    let is_one_line = said.lines().count() == 1 && said.ends_with('\n');
    assert!(is_one_line && said.contains("aifo-shim: "), "{row}: {said:?}");
}

#[test]
fn the_proxy() {
    for state in CALL_STATES {
        let row = format!("{state:?}");
        let call = Call::at(state, Manner::Ignores);
        let id = call.id.clone();
        send_signal(call.session.pid(), Signal::SIGKILL);
        call.wait(state);
        // Signal escalation takes seconds; the caller did not wait for it.
        assert!(!tagged_processes(&id).is_empty(), "{row}: the caller is let go first");
        let (_session, ending, said) = call.finish(state);
        check_unknown(ending, &said, &row);
        check_gone(&id, &row);
    }
}

/// Kills a call process, has its ending judged, and expects a session that serves the next call.
#[track_caller]
fn check_killed(
    state: CallState,
    manner: Manner,
    victim: impl Fn(&Call) -> i32,
    judge: impl Fn(Result<i32, i32>, &str, &str),
) {
    let row = format!("{state:?}");
    let call = Call::at(state, manner);
    let id = call.id.clone();
    send_signal(victim(&call), Signal::SIGKILL);
    let (session, ending, said) = call.finish(state);
    judge(ending, &said, &row);
    check_gone(&id, &row);
    check_next(&session, &row);
}

#[test]
fn the_runner() {
    for state in CALL_STATES {
        let runner = |call: &Call| call.session.pid_of("runner");
        check_killed(state, Manner::Ignores, runner, check_unknown);
    }
}

/// The runner ends the tools by signal escalation and reports their endings.
#[test]
fn the_guard() {
    for state in CALL_STATES {
        let guard = |call: &Call| call.session.pid_of("guard");
        check_killed(state, Manner::Obeys, guard, |ending, said, row| {
            assert_eq!(ending, Err(Signal::SIGINT as i32), "{row}: {said}");
        });
    }
}

#[test]
fn the_tool() {
    for state in CALL_STATES {
        check_killed(state, Manner::Ignores, |call| call.part(false), check_signaled);
    }
}

#[test]
fn the_monitor() {
    check_killed(CallState::OnTerminal, Manner::Ignores, |call| call.part(true), check_signaled);
}

/// Expects the tool's own end by SIGKILL, without a message.
#[track_caller]
fn check_signaled(ending: Result<i32, i32>, said: &str, row: &str) {
    assert_eq!((ending, said), (Err(Signal::SIGKILL as i32), ""), "{row}");
}

#[test]
fn the_shim() {
    for state in CALL_STATES {
        for manner in [Manner::Obeys, Manner::Ignores] {
            let row = format!("{state:?}, a tool that {manner:?}");
            let call = Call::at(state, manner);
            let id = call.id.clone();
            send_signal(call.caller.pid(), Signal::SIGKILL);
            let (session, ending, said) = call.finish(state);
            assert_eq!((ending, said.as_str()), (Err(Signal::SIGKILL as i32), ""), "{row}");
            check_gone(&id, &row);
            check_next(&session, &row);
        }
    }
}

/// Except after SIGKILL to the shim itself.
#[test]
fn any_lost_process_leaves_the_terminal_as_before() {
    for victim in ["proxy", "runner", "guard", "tool", "monitor"] {
        let call = Call::at(CallState::OnTerminal, Manner::Obeys);
        let modes = Terminal::sized(80, 24).modes();
        let pid = match victim {
            "tool" => call.part(false),
            "monitor" => call.part(true),
            process => call.session.pid_of(process),
        };
        send_signal(pid, Signal::SIGKILL);
        let Caller::OnTerminal(process, terminal) = call.caller else {
            panic!("it is on a terminal")
        };
        let ending = process.finish();
        assert!(ending != Ok(0), "{victim}: success is never invented");
        assert_eq!(terminal.modes(), modes, "{victim}");
        check_gone(&call.id, victim);
    }
}

/// Before a response: the proxy has not read the request, or the runner not the start.
#[test]
fn before_the_tool_has_started() {
    for victim in ["proxy", "runner", "shim"] {
        let session = SessionSetup::new().kinds(&["c-cpp"]).start();
        let (id, ran) = (fresh_id(), session.file("ran"));
        let stopped = match victim {
            "runner" => session.sidecars()[0].runner,
            _ => session.pid(),
        };
        send_signal(stopped, Signal::SIGSTOP);
        eventually("it is stopped", || is_stopped(stopped));
        let mut shim = session.shim("make");
        shim.args(["count", &ran]).env("AIFO_EXEC_ID", &id).stdin(Stdio::null());
        let shim = Running::start(&mut shim);
        eventually("the shim waits for an answer", || waits_for_an_answer(shim.pid()));
        match victim {
            "shim" => _ = shim.signal(Signal::SIGKILL),
            _ => send_signal(stopped, Signal::SIGKILL),
        }
        eventually("the caller has ended", || !is_alive(shim.pid()));
        // The passed descriptors may still be in flight.
        send_signal(session.pid(), Signal::SIGCONT);
        let outcome = shim.finish();
        let ending = outcome.code().ok_or(outcome.signal().unwrap_or_default());
        match victim {
            "shim" => assert_eq!(ending, Err(Signal::SIGKILL as i32)),
            // The proxy noticed the loss before it read the request, so the call ran in a new
            // sidecar.
            "runner" if ending == Ok(0) => assert_eq!(fs::read(&ran).unwrap(), b"ran\n"),
            _ => check_unknown(ending, &outcome.stderr, victim),
        }
        if victim != "proxy" {
            check_next(&session, victim);
        }
        check_gone(&id, victim);
    }
}

/// Returns whether it has a connection and sleeps.
fn waits_for_an_answer(pid: i32) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    let is_socket = |target: PathBuf| target.to_string_lossy().starts_with("socket:");
    let call = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    targets.any(is_socket) && call.contains("poll")
}

/// A client that ends before its request is complete has requested nothing.
#[test]
fn half_a_request() {
    let session = SessionSetup::new().kinds(&["c-cpp"]).start();
    let ran = session.file("ran");
    let call = Invocation::new(&session, "make", ["count", &ran]);
    let request = call.request(&session).encode();
    for length in [0, 1, request.len() / 2, request.len() - 1] {
        Client::connect(&session).send(&request[..length]);
    }
    let (mut client, _) = Client::start(&session, Invocation::new(&session, "make", ["wait"]));
    client.expect("ready\n");
    assert!(!fs::exists(&ran).unwrap(), "what came later is served, what came before has not run");
    client.send(frame(kind::SIGNAL, [15]));
    assert_eq!(client.finish().ending(), Err(15));
}

/// Background processes of a tool end with their sidecar.
#[test]
fn after_the_ending() {
    for victim in ["proxy", "runner", "guard"] {
        let session = SessionSetup::new().kinds(&["c-cpp"]).start();
        let (id, file) = (fresh_id(), session.file("leaf"));
        let mut shim = session.shim("make");
        // The background process keeps the output open, so it must not be awaited.
        shim.args(["daemon", &file]).env("AIFO_EXEC_ID", &id).stdout(Stdio::null());
        assert_eq!(shim.status().expect("the shim starts").code(), Some(0));
        let leaf = fs::read_to_string(file).unwrap().parse().expect("the leaf writes its pid");
        let leaf = session.process(leaf);
        assert!(is_alive(leaf), "as it would natively");
        send_signal(session.pid_of(victim), Signal::SIGKILL);
        check_gone(&id, victim);
        if victim != "proxy" {
            check_next(&session, victim);
        }
    }
}
