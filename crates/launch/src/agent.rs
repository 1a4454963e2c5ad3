//! Running an agent in a session.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use aifo_process::signal_process;
use aifo_types::{Ending, Signal, env};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::session::{Session, Verbosity};
use crate::shims::path_with_first;

/// A command that is the agent, or stands for one.
#[derive(Debug)]
pub struct Agent {
    command: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
}

/// How an agent ended, or that it never began.
#[derive(Debug)]
pub enum AgentEnd {
    /// It ran.
    Ended(Ending),
    /// It could not be started; the error tells why.
    NotStarted(io::Error),
}

impl Agent {
    /// The program, looked up in the agent's own PATH (the shims come first) if it is a plain name,
    /// and its arguments. `None` for an empty command.
    pub fn new(command: Vec<OsString>) -> Option<Self> {
        (!command.is_empty()).then_some(Agent { command, variables: Vec::new() })
    }

    /// Sets a variable in the agent's environment, such as a smart toggle.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// The program's basename, which names the agent.
    pub fn name(&self) -> OsString {
        let program = self.command.first().map(Path::new);
        program.and_then(Path::file_name).map(OsString::from).unwrap_or_default()
    }

    /// The program as it was asked for.
    pub fn program(&self) -> OsString {
        self.command.first().cloned().unwrap_or_default()
    }

    /// Runs it in our own process group, so that a terminal's keys reach it, and waits for its end.
    ///
    /// INT and QUIT come from the terminal and are the agent's to handle; TERM and HUP that reach
    /// us are passed on to it.
    pub async fn run(&self, session: &Session) -> io::Result<AgentEnd> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut quits = signal(SignalKind::quit())?;
        let mut terms = signal(SignalKind::terminate())?;
        let mut hangups = signal(SignalKind::hangup())?;
        let Some((program, args)) = self.command.split_first() else {
            return Ok(AgentEnd::NotStarted(io::ErrorKind::NotFound.into()));
        };
        let contract = self.contract(session);
        write_settings(&session.shims().join("shim.env"), &contract)?;
        let mut command = Command::new(program);
        command.args(args).envs(contract);
        command.env("PATH", path_with_first(&session.shims(), std::env::var_os("PATH")));
        command.env("TMPDIR", session.tmp());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(AgentEnd::NotStarted(error)),
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let forward = |signal| {
            if let Some(pid) = pid {
                // Not reaped yet: that happens in this very loop.
                signal_process(pid, signal);
            }
        };
        loop {
            tokio::select! {
                status = child.wait() => return Ok(AgentEnd::Ended(ending(status?))),
                _ = interrupts.recv() => {}
                _ = quits.recv() => {}
                _ = terms.recv() => forward(Signal::Term),
                _ = hangups.recv() => forward(Signal::Hup),
            }
        }
    }

    /// The variables by which shims find their session.
    fn contract(&self, session: &Session) -> Vec<(OsString, OsString)> {
        let owned = |(name, value): (&str, OsString)| (OsString::from(name), value);
        let mut contract: Vec<_> = session.variables().into_iter().map(owned).collect();
        contract.push(owned((env::AGENT_NAME, self.name())));
        contract.push(owned((env::NOTIFY_TOOLS, session.notify_tools().join(",").into())));
        if let Some(python) = session.local_python() {
            contract.push(owned((env::LOCAL_PYTHON, python.into())));
        }
        if session.verbosity() == Verbosity::Verbose {
            contract.push(owned((env::VERBOSE, "1".into())));
        }
        contract.extend(self.variables.iter().cloned());
        contract
    }
}

/// Writes the contract where a shim finds it that was started without an environment. What cannot
/// stand on one line is left out.
fn write_settings(path: &Path, contract: &[(OsString, OsString)]) -> io::Result<()> {
    let mut text = Vec::new();
    for (name, value) in contract {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        if name.starts_with(env::PREFIX.as_bytes()) && !value.contains(&b'\n') {
            text.extend([name, b"=", value, b"\n"].concat());
        }
    }
    File::options().write(true).create_new(true).mode(0o400).open(path)?.write_all(&text)
}

fn ending(status: std::process::ExitStatus) -> Ending {
    let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or_default();
    match status.signal() {
        Some(signal) => Ending::Signaled(byte(signal)),
        None => Ending::Exited(byte(status.code().unwrap_or_default())),
    }
}
