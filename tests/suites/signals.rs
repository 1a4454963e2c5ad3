//! Signals reach the tool, and exit codes reach the caller.
//!
//! Proves `spec/toolexec.md#signal`, `spec/shim.md#signals`, `spec/shim.md#compatibility-flags`.

use std::process::Command;
use std::thread;

use aifo_tests::{
    Outcome, Running, Session, Signal, eventually, fresh_id, is_alive, is_stopped,
    passes_descriptors, send_signal, status_field,
};

/// Runs `make catch` and sends it a signal; returns the caught one.
#[track_caller]
fn caught(session: &Session, spelling: &str) -> String {
    let id = fresh_id();
    let call = session.send_ready(&session.exec("make", ["catch"]).id(&id));
    assert_eq!(session.signal(&id, spelling).status(), 204, "{spelling}");
    call.answer().text()
}

#[test]
fn every_name_in_every_spelling() {
    let session = Session::start();
    for name in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "TSTP", "CONT", "WINCH"] {
        let expected = format!("ready\nSIG{name}\n");
        let lower = name.to_lowercase();
        for spelling in [name, &lower, &format!("SIG{name}"), &format!("Sig{lower}")] {
            assert_eq!(caught(&session, spelling), expected, "{spelling}");
        }
    }
    for spelling in ["KILL", "sigkill"] {
        assert_eq!(ended_by(&session, spelling), Some("137".to_owned()));
    }
}

#[test]
fn a_signal_goes_to_the_exec_it_names() {
    let session = Session::start();
    let calls = [("make", "USR1"), ("make", "USR2"), ("cargo", "HUP")].map(|(tool, signal)| {
        let id = fresh_id();
        let call = session.send_ready(&session.exec(tool, ["catch"]).id(&id));
        (id, signal, call)
    });
    for (id, signal, _) in &calls {
        assert_eq!(session.signal(id, signal).status(), 204);
    }
    for (_, signal, call) in calls {
        assert_eq!(call.answer().text(), format!("ready\nSIG{signal}\n"));
    }
}

/// Runs `make wait` and sends it a signal; returns the call's exit code.
#[track_caller]
fn ended_by(session: &Session, spelling: &str) -> Option<String> {
    let id = fresh_id();
    let call = session.send_ready(&session.exec("make", ["wait"]).id(&id));
    assert_eq!(session.signal(&id, spelling).status(), 204);
    call.answer().exit_code().map(str::to_owned)
}

#[test]
fn the_default_is_term() {
    let session = Session::start();
    let id = fresh_id();
    let call = session.send_ready(&session.exec("make", ["catch"]).id(&id));
    assert_eq!(session.answer(&session.post("/signal").field("exec_id", &id)).status(), 204);
    assert_eq!(call.answer().text(), "ready\nSIGTERM\n");
}

#[test]
fn unknown_signals_and_ended_execs_are_refused() {
    let session = Session::start();
    let id = fresh_id();
    let call = session.send_ready(&session.exec("make", ["catch"]).id(&id));
    for name in ["STOP", "SEGV", "2", "SIG", "SIGSIGINT", "INT TERM", "", "\u{fffd}"] {
        let answer = session.signal(&id, name);
        assert_eq!((answer.status(), answer.exit_code()), (400, Some("86")), "{name:?}");
        assert!(answer.text().starts_with("bad request: "), "{}", answer.text());
    }
    assert_eq!(session.signal(&id, "USR1").status(), 204);
    assert_eq!(call.answer().text(), "ready\nSIGUSR1\n", "none of the others was delivered");

    assert_eq!(session.signal(&id, "INT").status(), 404, "it has ended");
    assert_eq!(session.signal("no-such-exec", "INT").status(), 404);
    assert_eq!(session.answer(&session.post("/signal").field("signal", "INT")).status(), 400);
    assert_eq!(session.signal("a/b", "INT").status(), 400, "that is no exec id");
}

#[test]
fn a_signal_is_delivered_once() {
    let session = Session::start();
    let id = fresh_id();
    let mut call = session.send_ready(&session.exec("make", ["record"]).id(&id));
    assert_eq!(session.signal(&id, "USR1").status(), 204);
    call.read_until(b"SIGUSR1\n");
    assert_eq!(session.signal(&id, "USR2").status(), 204);
    call.read_until(b"SIGUSR2\n");
    assert_eq!(session.signal(&id, "KILL").status(), 204);
    let answer = call.answer();
    assert_eq!(answer.text(), "ready\nSIGUSR1\nSIGUSR2\n");
    assert_eq!(answer.exit_code(), Some("137"));
}

#[test]
fn every_exit_code_passes_through() {
    let session = Session::start();
    thread::scope(|scope| {
        for start in (0..256).step_by(64) {
            let session = &session;
            scope.spawn(move || {
                for code in start..start + 64 {
                    let code = code.to_string();
                    let answer = session.answer(&session.exec("make", ["exit", &code]));
                    assert_eq!(answer.trailer("X-Exit-Code"), Some(&*code));
                }
            });
        }
    });
    for code in [0, 1, 86, 124, 125, 126, 127, 130, 255] {
        Outcome::of(session.shim("make").args(["exit", &code.to_string()])).exited(code);
    }
}

#[test]
fn a_tool_ended_by_a_signal_exits_128_and_its_number() {
    let session = Session::start();
    for signal in [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15] {
        let expected = (128 + signal).to_string();
        let answer = session.answer(&session.exec("make", ["die", &signal.to_string()]));
        assert_eq!(answer.exit_code(), Some(&*expected), "signal {signal}");
    }
    let mut shim = shim_of_version_2(&session);
    Outcome::of(shim.args(["die", "15"])).exited(143);
}

/// A caller can distinguish a signal from an exit code.
#[test]
fn the_shim_dies_of_its_tools_signal() {
    let session = Session::start();
    for number in [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15] {
        let signal = Signal::try_from(number).expect("Linux has it");
        let outcome = Outcome::of(session.shim("make").args(["die", &number.to_string()]));
        assert_eq!(outcome.died_of(signal).stderr, "");
    }
}

/// The shim with the name `make`, limited to version 2.
fn shim_of_version_2(session: &Session) -> Command {
    let mut shim = session.shim("make");
    shim.env("AIFO_SHIM_PROTO", "2");
    shim
}

#[test]
fn in_version_2_ctrl_c_is_int_then_term_then_kill() {
    let session = Session::start();
    let shim = Running::start(shim_of_version_2(&session).arg("record"));
    shim.expect("ready\n");
    shim.signal(Signal::SIGINT).expect("SIGINT\n");
    shim.signal(Signal::SIGINT).expect("SIGTERM\n");
    shim.signal(Signal::SIGINT);
    let outcome = shim.finish();
    assert_eq!(outcome.exited(137).text(), "ready\nSIGINT\nSIGTERM\n");
}

/// Some tools ask for confirmation on the first INT; REPLs take any number.
#[test]
fn every_ctrl_c_is_int() {
    let session = Session::start();
    let shim = Running::start(session.shim("make").arg("record"));
    let mut expected = "ready\n".to_owned();
    shim.expect(&expected);
    for _ in 0..6 {
        expected += "SIGINT\n";
        shim.signal(Signal::SIGINT).expect(&expected);
    }
    for signal in [Signal::SIGTERM, Signal::SIGWINCH, Signal::SIGINT] {
        expected += &format!("{signal}\n");
        shim.signal(signal).expect(&expected);
    }
    shim.signal(Signal::SIGKILL);
    assert_eq!(shim.finish().died_of(Signal::SIGKILL).text(), expected);
}

#[test]
fn the_shim_ends_as_its_interrupted_tool_did() {
    let session = Session::start();
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let signaled = |mut shim: Command, verb: &str| {
            let shim = Running::start(shim.arg(verb));
            shim.expect("ready\n").signal(signal);
            shim.finish()
        };
        signaled(shim_of_version_2(&session), "wait").exited(code);
        signaled(session.shim("make"), "wait").died_of(signal);
        for shim in [shim_of_version_2(&session), session.shim("make")] {
            let outcome = signaled(shim, "catch");
            assert_eq!(outcome.exited(0).text(), format!("ready\n{signal}\n"), "its own choice");
        }
    }
}

#[test]
fn an_interrupted_call_exits_0_only_on_request() {
    let session = Session::start();
    let interrupted = |mut shim: Command, value: &str| {
        let shim = Running::start(shim.arg("wait").env("AIFO_SHIM_EXIT_ZERO_ON_SIGINT", value));
        shim.expect("ready\n").signal(Signal::SIGINT);
        shim.finish()
    };
    interrupted(shim_of_version_2(&session), "1").exited(0);
    interrupted(shim_of_version_2(&session), "0").exited(130);
    interrupted(session.shim("make"), "1").exited(0);
    interrupted(session.shim("make"), "0").died_of(Signal::SIGINT);
}

/// A parent that starts a command with INT ignored, as `nohup` does with HUP, intends it.
#[test]
fn a_signal_that_the_parent_ignores_is_not_forwarded() {
    let session = Session::start();
    for shim in [shim_of_version_2(&session), session.shim("make")] {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "trap '' INT HUP; exec \"$0\" record"]).arg(shim.get_program());
        shell.env_clear().current_dir(session.workspace());
        shell.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let shim = Running::start(&mut shell);
        shim.expect("ready\n");
        shim.signal(Signal::SIGINT).signal(Signal::SIGHUP).signal(Signal::SIGINT);
        // Earlier signals have been forwarded before this one.
        shim.signal(Signal::SIGUSR1).expect("SIGUSR1\n");
        shim.signal(Signal::SIGKILL);
        assert_eq!(shim.finish().text(), "ready\nSIGUSR1\n");
    }
}

#[test]
fn in_version_2_a_fourth_ctrl_c_abandons_a_stopped_proxy() {
    let session = Session::start();
    let shim = Running::start(shim_of_version_2(&session).arg("record"));
    shim.expect("ready\n");
    send_signal(session.pid(), Signal::SIGSTOP);
    eventually("the proxy is stopped", || is_stopped(session.pid()));
    for _ in 0..3 {
        let before = switches(shim.pid());
        shim.signal(Signal::SIGINT);
        eventually("the shim has received it", || switches(shim.pid()) != before);
    }
    shim.signal(Signal::SIGINT);
    let outcome = shim.finish();
    send_signal(session.pid(), Signal::SIGCONT);
    assert_eq!(outcome.exited(125).text(), "ready\n");
    assert!(outcome.only_line().contains("does not respond"), "{}", outcome.stderr);
}

/// Signals of a running tool bypass the proxy. The shim gives up only after several that were not
/// read, because a user may interrupt a tool repeatedly.
#[test]
fn repeated_ctrl_c_abandons_a_stopped_runner_or_proxy() {
    if !passes_descriptors("repeated_ctrl_c_abandons_a_stopped_runner_or_proxy") {
        return;
    }
    let session = Session::start();
    let stop = |pid| {
        send_signal(pid, Signal::SIGSTOP);
        eventually("it is stopped", || is_stopped(pid));
    };
    let check_given_up = |shim: Running, text: &str| {
        eventually("the shim gives up", || !is_alive(shim.signal(Signal::SIGINT).pid()));
        let outcome = shim.finish();
        assert_eq!(outcome.exited(125).text(), text);
        assert!(outcome.only_line().contains("does not respond"), "{}", outcome.stderr);
    };
    // Relayed output proves that the shim has seen the start; passed descriptors would remain with
    // the stopped proxy.
    let mut command = session.shim("make");
    command.arg("record").env("AIFO_SHIM_RELAY", "1");
    let shim = Running::start(&mut command);
    shim.expect("ready\n");
    stop(session.pid());
    shim.signal(Signal::SIGTERM).expect("ready\nSIGTERM\n");
    let runners: Vec<i32> = session.sidecars().iter().map(|sidecar| sidecar.runner).collect();
    runners.iter().for_each(|&runner| stop(runner));
    check_given_up(shim, "ready\nSIGTERM\n");
    runners.iter().for_each(|&runner| send_signal(runner, Signal::SIGCONT));

    // The proxy is still stopped, so this one does not start.
    let shim = Running::start(&mut command);
    eventually("it catches signals", || {
        let blocked = u64::from_str_radix(&status_field(shim.pid(), "SigBlk"), 16);
        blocked.expect("the mask is a number") & 1 << (Signal::SIGINT as u8 - 1) != 0
    });
    check_given_up(shim, "");
    send_signal(session.pid(), Signal::SIGCONT);
}

/// A counter that changes with every activity of the process: its voluntary context switches.
fn switches(pid: i32) -> String {
    status_field(pid, "voluntary_ctxt_switches")
}
