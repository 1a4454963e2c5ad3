//! A shim's call in a given state.

use std::io::{PipeWriter, pipe};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use aifo_tests::{
    Outcome, Running, Session, SessionSetup, Signal, Terminal, TerminalProcess, Tool, argv,
    eventually, fresh_id, is_alive, is_stopped, send_signal, tagged_processes,
};

/// A call state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallState {
    /// The tool runs silently.
    Started(Transport),
    /// It prints endlessly.
    Printing(Transport),
    /// It reads its input, which is open and empty.
    Reading(Transport),
    /// It has a terminal; the caller terminal is raw.
    OnTerminal,
    /// Both the tool and its shim are stopped.
    Stopped,
}

/// How the standard descriptors are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Passed,
    Relayed,
}

pub(crate) const CALL_STATES: [CallState; 8] = [
    CallState::Started(Transport::Passed),
    CallState::Started(Transport::Relayed),
    CallState::Printing(Transport::Passed),
    CallState::Printing(Transport::Relayed),
    CallState::Reading(Transport::Passed),
    CallState::Reading(Transport::Relayed),
    CallState::OnTerminal,
    CallState::Stopped,
];

/// How a tool handles INT, TERM and HUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Obeys,
    /// Only KILL ends it, after three seconds of signal escalation.
    Ignores,
}

/// A call in some state.
pub(crate) struct Call {
    pub(crate) session: Session,
    pub(crate) id: String,
    pub(crate) caller: Caller,
    /// Keeps the tool input open.
    _input: PipeWriter,
}

pub(crate) enum Caller {
    Piped(Running),
    OnTerminal(TerminalProcess, Terminal),
}

impl Caller {
    pub(crate) fn pid(&self) -> i32 {
        match self {
            Caller::Piped(running) => running.pid(),
            Caller::OnTerminal(process, _) => process.pid(),
        }
    }
}

impl Call {
    #[track_caller]
    pub(crate) fn at(state: CallState, manner: Manner) -> Self {
        let setup = SessionSetup::new().kinds(&["c-cpp"]);
        let session = setup.tool("make", Tool::Link("/bin/sh".into())).start();
        let id = fresh_id();
        let traps = if manner == Manner::Ignores { "trap '' INT TERM HUP;" } else { "" };
        let work = match state {
            CallState::Printing(_) => "while :; do echo line; done",
            CallState::Reading(_) => "read -r line; exec sleep 1000",
            CallState::Started(_) | CallState::OnTerminal | CallState::Stopped => "exec sleep 1000",
        };
        let mut shim = session.shim("make");
        shim.args(["-c", &format!("PATH=/usr/bin:/bin; {traps} echo ready; {work}")]);
        shim.env("AIFO_EXEC_ID", &id);
        if let CallState::Started(transport)
        | CallState::Printing(transport)
        | CallState::Reading(transport) = state
            && transport == Transport::Relayed
        {
            shim.env("AIFO_SHIM_RELAY", "1");
        }
        let (input, open) = pipe().expect("the system has pipes");
        let caller = match state {
            CallState::OnTerminal => on_terminal(&shim),
            // In a process group that is not orphaned, like a shell's job.
            _ => Caller::Piped(Running::start(shim.process_group(0).stdin(input))),
        };
        if let Caller::Piped(running) = &caller {
            running.expect("ready\n");
        }
        if state == CallState::Stopped {
            send_signal(caller.pid(), Signal::SIGTSTP);
            eventually("the shim has stopped", || is_stopped(caller.pid()));
        }
        Call { session, id, caller, _input: open }
    }

    /// A process of the exec: the tool, or its monitor.
    pub(crate) fn part(&self, is_monitor: bool) -> i32 {
        let named = |pid: &i32| {
            let name = argv(*pid).into_iter().next().unwrap_or_default();
            name.ends_with("aifo-runner") == is_monitor
        };
        let mut part = 0;
        // The process may not have executed its program yet, so that its argv is another one.
        eventually("the exec has one such process", || {
            let parts: Vec<i32> = tagged_processes(&self.id).into_iter().filter(named).collect();
            part = parts.first().copied().unwrap_or_default();
            parts.len() == 1
        });
        part
    }

    /// Waits until the caller process has ended; a tool may keep its output open for longer.
    #[track_caller]
    pub(crate) fn wait(&self, state: CallState) {
        if state == CallState::Stopped {
            // As a job-control shell does.
            send_signal(self.caller.pid(), Signal::SIGCONT);
        }
        eventually("the caller has ended", || !is_alive(self.caller.pid()));
    }

    /// Waits for the caller's end; returns its ending and its messages.
    #[track_caller]
    pub(crate) fn finish(self, state: CallState) -> (Session, Result<i32, i32>, String) {
        self.wait(state);
        let (ending, said) = match self.caller {
            Caller::Piped(running) => {
                let Outcome { status, stderr, .. } = running.finish();
                (status.code().ok_or(status.signal().unwrap_or_default()), stderr)
            }
            Caller::OnTerminal(process, terminal) => {
                let ending = process.finish();
                if ending == Ok(125) {
                    // Its message arrives a moment later.
                    terminal.expect("unknown");
                }
                let said = |line: &&str| line.contains("aifo-shim: ");
                let lines =
                    terminal.shown().lines().filter(said).map(|l| format!("{l}\n")).collect();
                (ending, lines)
            }
        };
        (self.session, ending, said)
    }
}

/// The shim on its own terminal, after it has set raw mode.
#[track_caller]
fn on_terminal(shim: &Command) -> Caller {
    let terminal = Terminal::sized(80, 24);
    let modes = terminal.modes();
    let process = terminal.start(shim);
    terminal.expect("ready");
    eventually("the terminal is raw", || terminal.modes() != modes);
    Caller::OnTerminal(process, terminal)
}
