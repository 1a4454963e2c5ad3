//! A call of a shim, at one of its stages.

use std::io::{PipeWriter, pipe};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use aifo_tests::{
    Outcome, Running, Seated, Session, Setup, Signal, Terminal, Tool, argv, census, eventually,
    fresh_id, is_alive, is_stopped, send_signal,
};

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The tool runs and is silent.
    Started(Way),
    /// It prints without end.
    Printing(Way),
    /// It waits for its input, which is open and empty.
    Reading(Way),
    /// It has a terminal, and the caller's is raw.
    OnTerminal,
    /// Both it and its shim were stopped.
    Stopped,
}

/// How the tool has its standard descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Passed,
    Relayed,
}

pub(crate) const STAGES: [Stage; 8] = [
    Stage::Started(Way::Passed),
    Stage::Started(Way::Relayed),
    Stage::Printing(Way::Passed),
    Stage::Printing(Way::Relayed),
    Stage::Reading(Way::Passed),
    Stage::Reading(Way::Relayed),
    Stage::OnTerminal,
    Stage::Stopped,
];

/// What a tool does about INT, TERM and HUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Obeys,
    /// Only KILL ends it: three seconds up the ladder.
    Ignores,
}

/// A call at some stage.
pub(crate) struct Call {
    pub(crate) session: Session,
    pub(crate) id: String,
    pub(crate) caller: Caller,
    /// Keeps the tool's input open.
    _input: PipeWriter,
}

pub(crate) enum Caller {
    Piped(Running),
    Seated(Seated, Terminal),
}

impl Caller {
    pub(crate) fn pid(&self) -> i32 {
        match self {
            Caller::Piped(running) => running.pid(),
            Caller::Seated(seated, _) => seated.pid(),
        }
    }
}

impl Call {
    #[track_caller]
    pub(crate) fn at(stage: Stage, manner: Manner) -> Self {
        let setup = Setup::new().kinds(&["c-cpp"]);
        let session = setup.tool("make", Tool::Link("/bin/sh".into())).start();
        let id = fresh_id();
        let traps = if manner == Manner::Ignores { "trap '' INT TERM HUP;" } else { "" };
        let work = match stage {
            Stage::Printing(_) => "while :; do echo line; done",
            Stage::Reading(_) => "read -r line; exec sleep 1000",
            Stage::Started(_) | Stage::OnTerminal | Stage::Stopped => "exec sleep 1000",
        };
        let mut shim = session.shim("make");
        shim.args(["-c", &format!("PATH=/usr/bin:/bin; {traps} echo ready; {work}")]);
        shim.env("AIFO_EXEC_ID", &id);
        if let Stage::Started(way) | Stage::Printing(way) | Stage::Reading(way) = stage
            && way == Way::Relayed
        {
            shim.env("AIFO_SHIM_RELAY", "1");
        }
        let (input, open) = pipe().expect("the system has pipes");
        let caller = match stage {
            Stage::OnTerminal => on_terminal(&shim),
            // In a group that is not orphaned, as a shell's job is.
            _ => Caller::Piped(Running::start(shim.process_group(0).stdin(input))),
        };
        if let Caller::Piped(running) = &caller {
            running.expect("ready\n");
        }
        if stage == Stage::Stopped {
            send_signal(caller.pid(), Signal::SIGTSTP);
            eventually("the shim has stopped", || is_stopped(caller.pid()));
        }
        Call { session, id, caller, _input: open }
    }

    /// The processes of the exec: the tool, and a monitor if it has one.
    pub(crate) fn part(&self, is_monitor: bool) -> i32 {
        let named = |pid: &i32| {
            let name = argv(*pid).into_iter().next().unwrap_or_default();
            name.ends_with("aifo-runner") == is_monitor
        };
        let parts: Vec<i32> = census(&self.id).into_iter().filter(named).collect();
        let [part] = parts[..] else { panic!("one of {parts:?}") };
        part
    }

    /// Waits until the caller's process has ended; a tool may hold its output open for longer.
    #[track_caller]
    pub(crate) fn wait(&self, stage: Stage) {
        if stage == Stage::Stopped {
            // As whoever sees to its jobs does.
            send_signal(self.caller.pid(), Signal::SIGCONT);
        }
        eventually("the caller has ended", || !is_alive(self.caller.pid()));
    }

    /// Waits for the caller's end: how it ended, and what it said of it.
    #[track_caller]
    pub(crate) fn finish(self, stage: Stage) -> (Session, Result<i32, i32>, String) {
        self.wait(stage);
        let (ending, said) = match self.caller {
            Caller::Piped(running) => {
                let Outcome { status, stderr, .. } = running.finish();
                (status.code().ok_or(status.signal().unwrap_or_default()), stderr)
            }
            Caller::Seated(seated, terminal) => {
                let ending = seated.finish();
                if ending == Ok(125) {
                    // Whatever it said is shown a moment later.
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

/// The shim on a terminal of its own, once that has been set raw.
#[track_caller]
fn on_terminal(shim: &Command) -> Caller {
    let terminal = Terminal::sized(80, 24);
    let modes = terminal.modes();
    let seated = terminal.start(shim);
    terminal.expect("ready");
    eventually("the terminal is raw", || terminal.modes() != modes);
    Caller::Seated(seated, terminal)
}
