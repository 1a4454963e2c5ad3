//! Running an agent in a session.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use aifo_process::signal_process;
use aifo_sidecar::{CONTAINER_TMP, CONTAINER_WORKSPACE};
use aifo_types::{Ending, Signal, Token, encode_variables, env};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Verbosity;
use crate::place;
use crate::session::Session;
use crate::shim_binary::ShimBinary;
use crate::shims::path_with_first;

/// A command that is the agent, or stands for one.
#[derive(Debug)]
pub struct Agent {
    command: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    given: Vec<(String, String)>,
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
        let (variables, given) = (Vec::new(), Vec::new());
        (!command.is_empty()).then_some(Agent { command, variables, given })
    }

    /// Sets a variable in the agent's environment, such as a smart toggle.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets variables of the agent's own process, wherever that is. They change nothing of what is ours
    /// there.
    pub fn give(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> &mut Self {
        self.given.extend(variables);
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

    /// Runs it and waits for its end: in the session's container if there is one for it, else here.
    /// What we start is in our own process group, so that a terminal's keys reach it.
    ///
    /// INT and QUIT come from the terminal and are the agent's to handle; TERM and HUP that reach
    /// us are passed on to it.
    pub async fn run(&self, session: &Session) -> io::Result<AgentEnd> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut quits = signal(SignalKind::quit())?;
        let mut terms = signal(SignalKind::terminate())?;
        let mut hangups = signal(SignalKind::hangup())?;
        let Some(mut command) = self.command(session)? else {
            return Ok(AgentEnd::NotStarted(io::ErrorKind::NotFound.into()));
        };
        session.start_call_stats();
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

    /// What is to be spawned for the agent itself: it ends as the agent does. `None` for an empty
    /// command. It must not outlive the session.
    pub fn command(&self, session: &Session) -> io::Result<Option<Command>> {
        let Some((program, args)) = self.command.split_first() else { return Ok(None) };
        let mut command = self.enter(session)?.command_with(program, &self.given);
        command.args(args);
        Ok(Some(command))
    }

    /// Makes the agent's place ready for commands: shims find their session from here on.
    pub fn enter(&self, session: &Session) -> io::Result<Place> {
        let mut contract = self.contract(session);
        let place = match session.door() {
            None => {
                session.watch_host()?;
                write_settings(&session.shims().join(SETTINGS), &contract)?;
                Place::Here(Here {
                    path: path_with_first(&session.shims(), std::env::var_os("PATH")),
                    shims: session.shims(),
                    tmp: session.tmp().to_owned(),
                    contract,
                })
            }
            Some(door) => {
                let inside = [
                    (env::URL, format!("unix://{}/exec.sock", place::FRONT)),
                    (env::WORKSPACE, CONTAINER_WORKSPACE.to_owned()),
                ];
                for (name, value) in inside {
                    contract.retain(|(known, _)| known != name);
                    contract.push((name.into(), value.into()));
                }
                write_settings(&place::front(session.folder()).join(SETTINGS), &contract)?;
                Place::Container(Inside {
                    shim: session.shim().clone(),
                    workspace: session.workspace().to_owned(),
                    url: door.endpoint().to_string(),
                    token: door.token().clone(),
                    forwarded: door.forwarded().to_owned(),
                })
            }
        };
        Ok(place)
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

/// Where the agent is, ready for commands. Those must not outlive the session.
#[derive(Clone, Debug)]
pub enum Place {
    /// On this machine.
    Here(Here),
    /// In a container.
    Container(Inside),
}

/// An agent's place that is this machine, but for PATH and a few variables.
#[derive(Clone, Debug)]
pub struct Here {
    shims: PathBuf,
    path: OsString,
    tmp: PathBuf,
    contract: Vec<(OsString, OsString)>,
}

/// An agent's container, as it is reached from outside.
#[derive(Clone, Debug)]
pub struct Inside {
    shim: ShimBinary,
    workspace: PathBuf,
    url: String,
    token: Token,
    forwarded: String,
}

impl Place {
    /// A command that runs `program` in the agent's place and ends as it does; arguments are to be
    /// added. A plain name is looked up in the PATH there, in which the shims come first.
    pub fn command(&self, program: &OsStr) -> Command {
        self.command_with(program, &[])
    }

    /// Such a command, with variables of its own. They change nothing of what is ours there.
    pub fn command_with(&self, program: &OsStr, variables: &[(String, String)]) -> Command {
        match self {
            Place::Here(here) => here.command(program, variables),
            Place::Container(inside) => inside.command(program, variables),
        }
    }

    /// What the workspace is called there as well, beside its own path.
    pub fn workspace_alias(&self) -> Option<&'static Path> {
        match self {
            Place::Here(_) => None,
            Place::Container(_) => Some(Path::new(CONTAINER_WORKSPACE)),
        }
    }

    /// What the session's temporary directory is called there.
    pub fn tmp(&self) -> &Path {
        match self {
            Place::Here(here) => &here.tmp,
            Place::Container(_) => Path::new(CONTAINER_TMP),
        }
    }

    /// Where the shims are there.
    pub(crate) fn shims(&self) -> &Path {
        match self {
            Place::Here(here) => &here.shims,
            Place::Container(_) => Path::new(place::SHIMS),
        }
    }
}

impl Here {
    fn command(&self, program: &OsStr, variables: &[(String, String)]) -> Command {
        let mut command = Command::new(program);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.envs(self.contract.iter().map(|(name, value)| (name, value)));
        command.env("PATH", &self.path).env("TMPDIR", &self.tmp);
        command
    }
}

impl Inside {
    /// A shim of our own, which carries the terminal and the signals of what runs in the container.
    fn command(&self, program: &OsStr, variables: &[(String, String)]) -> Command {
        let mut command = Command::new(self.shim.program());
        command.arg0("aifo-shim").args(["--call", place::ENTRY]).arg(program);
        for (name, value) in std::env::vars_os() {
            let Some(rest) = name.as_bytes().strip_prefix(env::PREFIX.as_bytes()) else { continue };
            command.env_remove(&name);
            if let Some(given) = given_name(rest) {
                command.env(given, value);
            }
        }
        command.env(env::URL, &self.url);
        command.env(env::TOKEN, self.token.reveal());
        command.env(env::WORKSPACE, &self.workspace);
        command.env(env::FORWARDED, &self.forwarded);
        // Not on the command line, which everybody can read.
        command.env(env::COMMAND_ENV, encode_variables(variables));
        let here = std::env::current_dir().ok();
        let inside = here.filter(|here| here.starts_with(&self.workspace));
        command.current_dir(inside.as_deref().unwrap_or(&self.workspace));
        command
    }
}

/// The agent's name of a variable `AIFO_ENV_NAME`, if nobody else sets that.
pub(crate) fn given_name(rest: &[u8]) -> Option<&OsStr> {
    let name = rest.strip_prefix(GIVEN.as_bytes()).filter(|name| !name.is_empty())?;
    let kept = [&b"HOME"[..], b"USER", b"SHELL", b"PATH", b"TERM", b"PWD"].contains(&name);
    let ours = name.starts_with(env::PREFIX.as_bytes()) || name.starts_with(b"LD_");
    (!kept && !ours).then(|| OsStr::from_bytes(name))
}

/// After `AIFO_`: what the user gives the agent, whatever it is.
const GIVEN: &str = "ENV_";

const SETTINGS: &str = "shim.env";

/// The variables that a user gives the agent by `AIFO_ENV_NAME`: their names there.
pub fn given_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| {
        let rest = name.as_bytes().strip_prefix(env::PREFIX.as_bytes())?;
        given_name(rest)?.to_str().map(str::to_owned)
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// What the names of variables begin with that a user gives the agent.
pub const GIVEN_PREFIX: &str = "AIFO_ENV_";

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
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a command sets of the environment, by name.
    fn environment(command: &Command) -> Vec<(&OsStr, &OsStr)> {
        command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    #[test]
    fn variables_of_a_command_stand_in_its_environment_only() {
        let variables = [("GIVEN", "secret"), ("PATH", "/theirs"), ("AIFO_WORKSPACE", "/theirs")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let here = Place::Here(Here {
            shims: "/shims".into(),
            path: "/shims:/bin".into(),
            tmp: "/tmp".into(),
            contract: vec![(env::WORKSPACE.into(), "/ws".into())],
        });
        let command = here.command_with(OsStr::new("make"), &variables);
        let set = environment(&command);
        for (name, value) in [("GIVEN", "secret"), ("PATH", "/shims:/bin"), (env::WORKSPACE, "/ws")]
        {
            assert!(set.contains(&(OsStr::new(name), OsStr::new(value))), "{name}: {set:?}");
        }

        let inside = Place::Container(Inside {
            shim: ShimBinary::stand_in(),
            workspace: "/ws".into(),
            url: "unix:///agent.sock".into(),
            token: Token::from_random([7; 16]),
            forwarded: env::COMMAND_ENV.into(),
        });
        let command = inside.command_with(OsStr::new("make"), &variables);
        let given = encode_variables(&variables);
        assert!(
            environment(&command).contains(&(OsStr::new(env::COMMAND_ENV), OsStr::new(&given)))
        );
        let args: Vec<_> = command.as_std().get_args().collect();
        assert_eq!(args, ["--call", "aifo-agent", "make"]);
        // What the launcher itself may have of that name is not passed on.
        let command = inside.command(OsStr::new("make"));
        assert!(environment(&command).contains(&(OsStr::new(env::COMMAND_ENV), OsStr::new(""))));
    }
}
