//! Every ending of a call restores the terminal.

use std::fs;

use aifo_tests::{
    Comparison, ExecMode, Signal, Terminal, TerminalProcess, children, descendants, eventually,
    is_alive, send_signal,
};
use nix::sys::termios::{LocalFlags, Termios};

use super::{PYTHON, STAY, process};

/// A shim in a script on a terminal in raw mode.
struct Call {
    terminal: Terminal,
    before: Termios,
    script: TerminalProcess,
    shim: i32,
    tool: i32,
}

impl Call {
    /// The tool writes its pid and stays; then the script writes the tool's status and stays.
    #[track_caller]
    fn start(comparison: &Comparison, mode: ExecMode, script: &str) -> Self {
        comparison.clear();
        fs::write(comparison.dir().join("stay.py"), STAY).unwrap();
        let terminal = Terminal::sized(80, 24);
        let before = terminal.modes();
        let script = format!("{script}\necho $? > code\nuntil [ -e over ]; do sleep .01; done");
        let mut bash = comparison.command(mode, &["/bin/bash", "-c", &script]);
        let script = terminal.start(bash.env("AIFO_SHIM_KILL_PARENT_SHELL_ON_SIGINT", "0"));
        let tool = process(comparison, "pid");
        eventually("what is typed is carried", || is_raw(&terminal));
        let [shim] = children(script.pid())[..] else { panic!("the script waits for one child") };
        Call { terminal, before, script, shim, tool }
    }

    /// Waits until the script continues after the call, and checks the terminal.
    #[track_caller]
    fn check(self, comparison: &Comparison, what: &str, code: &str) {
        eventually(&format!("{what}: the call has ended"), || {
            fs::read_to_string(comparison.dir().join("code")).is_ok_and(|text| text.ends_with('\n'))
        });
        let ended = fs::read_to_string(comparison.dir().join("code")).unwrap();
        assert_eq!(ended.trim(), code, "{what}: {}", self.terminal.shown());
        assert_eq!(self.terminal.modes(), self.before, "{what}");
        eventually(&format!("{what}: the tool has ended"), || !is_alive(self.tool));
        fs::write(comparison.dir().join("over"), "").unwrap();
        assert_eq!(self.script.finish(), Ok(0));
    }
}

/// Natively a waiting tool leaves the terminal's modes; a shim sets raw mode to forward keys.
fn is_raw(terminal: &Terminal) -> bool {
    !terminal.modes().local_flags.intersects(LocalFlags::ICANON | LocalFlags::ECHO)
}

#[test]
fn a_signal_to_the_shim_leaves_the_terminal_as_it_was() {
    let Some(comparison) = comparison("a_signal_to_the_shim_leaves_the_terminal_as_it_was") else {
        return;
    };
    let rows = [(Signal::SIGTERM, "143"), (Signal::SIGHUP, "129"), (Signal::SIGUSR1, "138")];
    for mode in ExecMode::SHIMS {
        for (signal, code) in rows {
            let call = Call::start(&comparison, mode, "python3 stay.py pid");
            send_signal(call.shim, signal);
            call.check(&comparison, &format!("{signal} to the shim ({mode:?})"), code);
            let call = Call::start(&comparison, mode, "python3 stay.py pid");
            send_signal(call.tool, signal);
            call.check(&comparison, &format!("{signal} to the tool ({mode:?})"), code);
        }
    }
}

#[test]
fn a_lost_runner_leaves_the_terminal_as_it_was() {
    let Some(comparison) = comparison("a_lost_runner_leaves_the_terminal_as_it_was") else {
        return;
    };
    let call = Call::start(&comparison, ExecMode::Passed, "python3 stay.py pid");
    let sidecars = comparison.session().sidecars();
    let its = sidecars.iter().find(|sidecar| descendants(sidecar.runner).contains(&call.tool));
    send_signal(its.expect("a tool runs below its runner").runner, Signal::SIGKILL);
    call.check(&comparison, "without its runner", "125");
}

#[test]
fn a_lost_proxy_leaves_the_terminal_as_it_was() {
    for mode in ExecMode::SHIMS {
        let Some(comparison) = comparison("a_lost_proxy_leaves_the_terminal_as_it_was") else {
            return;
        };
        let call = Call::start(&comparison, mode, "python3 stay.py pid");
        let sidecars = comparison.session().sidecars();
        send_signal(comparison.session().pid(), Signal::SIGKILL);
        call.check(&comparison, &format!("without its proxy ({mode:?})"), "125");
        // The runner does not wait for a terminal's last output without a client.
        eventually("the runners have ended", || !sidecars.iter().any(|it| is_alive(it.runner)));
    }
}

/// After SIGKILL the shim cannot restore the modes, but no tool is left.
#[test]
fn a_killed_shim_leaves_no_tool() {
    let Some(comparison) = comparison("a_killed_shim_leaves_no_tool") else { return };
    for mode in ExecMode::SHIMS {
        let call = Call::start(&comparison, mode, "python3 stay.py pid");
        send_signal(call.shim, Signal::SIGKILL);
        eventually(&format!("the tool has ended ({mode:?})"), || !is_alive(call.tool));
    }
}

/// A shell without line editing changes no modes, so these are the shim's.
#[test]
fn a_stopped_shim_leaves_the_terminal_as_it_was() {
    let Some(comparison) = comparison("a_stopped_shim_leaves_the_terminal_as_it_was") else {
        return;
    };
    let script = "set -m; python3 stay.py pid
        echo $? > stopped; until [ -e go ]; do sleep .01; done; fg";
    for mode in ExecMode::SHIMS {
        let call = Call::start(&comparison, mode, script);
        call.terminal.press("\x1a");
        assert_eq!(stopped(&comparison), "148", "TSTP stopped it");
        assert_eq!(call.terminal.modes(), call.before, "{mode:?}");
        fs::write(comparison.dir().join("go"), "").unwrap();
        eventually("what is typed is carried again", || is_raw(&call.terminal));
        call.terminal.press("\x1c");
        call.check(&comparison, &format!("stopped and continued ({mode:?})"), "131");
    }
}

#[track_caller]
fn comparison(test: &str) -> Option<Comparison> {
    Comparison::start(&format!("repl::{test}"), PYTHON)
}

#[track_caller]
fn stopped(comparison: &Comparison) -> String {
    let mut code = String::new();
    eventually("the script continues after the stopped call", || {
        code = fs::read_to_string(comparison.dir().join("stopped")).unwrap_or_default();
        code.ends_with('\n')
    });
    code.trim().to_owned()
}
