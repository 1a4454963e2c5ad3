//! Runs an agent in a session.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aifo_agents::{AgentForges, ModelKeys, agent_container, agent_variable_name, path_with_first};
use aifo_host::ShimBinary;
use aifo_process::{ending_of, signal_process, with_inherited_open_files};
use aifo_sidecar::{CONTAINER_TMP, CONTAINER_WORKSPACE};
use aifo_types::{
    Ending, Signal, Token, container_path, encode_variables, env, protective_git_variables,
};
use nix::unistd::Pid;
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
};

use crate::config::Verbosity;
use crate::session::Session;

/// The command line and environment of an agent.
#[derive(Debug)]
pub struct Agent {
    command: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    own_variables: Vec<(String, String)>,
}

/// Result of [`Agent::run`].
#[derive(Debug)]
pub enum AgentEnd {
    /// It ran and ended.
    Ended(Ending),
    /// It could not be started.
    NotStarted(io::Error),
}

impl Agent {
    /// Takes the program and its arguments. A plain name is looked up in the agent PATH, where
    /// the shims come first. Returns `None` for an empty command.
    pub fn new(command: Vec<OsString>) -> Option<Self> {
        let (variables, own_variables) = (Vec::new(), Vec::new());
        (!command.is_empty()).then_some(Agent { command, variables, own_variables })
    }

    /// Sets a variable for the agent and its shims, such as a smart toggle.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets variables of the agent's own process. The session variables take precedence.
    pub fn add_variables(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> &mut Self {
        self.own_variables.extend(variables);
        self
    }

    /// Returns the basename of the program, which names the agent.
    pub fn name(&self) -> OsString {
        let program = self.command.first().map(Path::new);
        program.and_then(Path::file_name).map(OsString::from).unwrap_or_default()
    }

    /// Returns the program as given.
    pub fn program(&self) -> OsString {
        self.command.first().cloned().unwrap_or_default()
    }

    /// Runs the agent and waits until it ends: in the session container if there is one, else on
    /// this machine. The child stays in the launcher's process group, so keys of the terminal reach
    /// it.
    ///
    /// The agent handles INT and QUIT itself; they come from the terminal. TERM and HUP are
    /// forwarded to it.
    pub async fn run(&self, session: &Session) -> io::Result<AgentEnd> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut quits = signal(SignalKind::quit())?;
        let mut terms = signal(SignalKind::terminate())?;
        let mut hangups = signal(SignalKind::hangup())?;
        let Some(mut command) = self.command(session)? else {
            return Ok(AgentEnd::NotStarted(io::ErrorKind::NotFound.into()));
        };
        session.reset_call_stats();
        let mut child = match with_inherited_open_files(|| command.spawn()) {
            Ok(child) => child,
            Err(error) => return Ok(AgentEnd::NotStarted(error)),
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let forward = |signal| {
            if let Some(pid) = pid {
                // Not reaped yet: only this loop reaps it.
                signal_process(pid, signal);
            }
        };
        loop {
            tokio::select! {
                status = child.wait() => return Ok(AgentEnd::Ended(ending_of(status?))),
                _ = interrupts.recv() => {}
                _ = quits.recv() => {}
                _ = terms.recv() => forward(Signal::Term),
                _ = hangups.recv() => forward(Signal::Hup),
            }
        }
    }

    /// Returns the command that runs the agent and ends as it does. `None` for an empty command. It
    /// must not outlive the session.
    pub fn command(&self, session: &Session) -> io::Result<Option<Command>> {
        let Some((program, args)) = self.command.split_first() else { return Ok(None) };
        let mut command = self.prepare(session)?.command_with(program, &self.own_variables);
        command.args(args);
        Ok(Some(command))
    }

    /// Writes the settings that shims read, and returns the environment in which commands can
    /// start.
    pub fn prepare(&self, session: &Session) -> io::Result<AgentEnvironment> {
        let mut shim_variables = self.shim_variables(session);
        let environment = match session.agent_endpoint() {
            None => {
                session.watch_host()?;
                write_settings(&session.shims().join(SETTINGS_FILE), &shim_variables)?;
                AgentEnvironment::Host(HostEnvironment {
                    path: path_with_first(&session.shims(), std::env::var_os("PATH")),
                    shims: session.shims(),
                    tmp: session.tmp().to_owned(),
                    shim_variables,
                })
            }
            Some(agent_endpoint) => {
                let inside = [
                    (env::URL, format!("unix://{}/exec.sock", container_path::SOCKET_DIR)),
                    (env::WORKSPACE_ALIAS, CONTAINER_WORKSPACE.to_owned()),
                ];
                for (name, value) in inside {
                    shim_variables.retain(|(known, _)| known != name);
                    shim_variables.push((name.into(), value.into()));
                }
                write_settings(&session.frontend_dir().join(SETTINGS_FILE), &shim_variables)?;
                AgentEnvironment::Container(Box::new(ContainerEnvironment {
                    shim: session.shim().clone(),
                    workspace: session.workspace().to_owned(),
                    url: agent_endpoint.endpoint().to_string(),
                    token: agent_endpoint.token().clone(),
                    forwarded: agent_endpoint.forwarded().to_owned(),
                    keys: agent_endpoint.keys().cloned(),
                    of_forges: agent_endpoint
                        .forges()
                        .map(AgentForges::variables)
                        .unwrap_or_default(),
                }))
            }
        };
        Ok(environment)
    }

    /// Returns the variables that connect shims to their session.
    fn shim_variables(&self, session: &Session) -> Vec<(OsString, OsString)> {
        let owned = |(name, value): (&str, OsString)| (OsString::from(name), value);
        let mut shim_variables: Vec<_> = session.variables().into_iter().map(owned).collect();
        shim_variables.push(owned((env::AGENT_NAME, self.name())));
        shim_variables.push(owned((env::NOTIFY_TOOLS, session.notify_tools().join(",").into())));
        if let Some(python) = session.local_python() {
            shim_variables.push(owned((env::LOCAL_PYTHON, python.into())));
        }
        if session.verbosity() == Verbosity::Verbose {
            shim_variables.push(owned((env::VERBOSE, "1".into())));
        }
        shim_variables.extend(self.variables.iter().cloned());
        shim_variables
    }
}

/// Environment of the agent, in which commands can start. They must not outlive the session.
#[derive(Clone, Debug)]
pub enum AgentEnvironment {
    /// On this machine.
    Host(HostEnvironment),
    /// In a container.
    Container(Box<ContainerEnvironment>),
}

/// This machine, with a different PATH and a few more variables.
#[derive(Clone, Debug)]
pub struct HostEnvironment {
    shims: PathBuf,
    path: OsString,
    tmp: PathBuf,
    shim_variables: Vec<(OsString, OsString)>,
}

/// The agent container, reached through its agent endpoint.
#[derive(Clone, Debug)]
pub struct ContainerEnvironment {
    shim: ShimBinary,
    workspace: PathBuf,
    url: String,
    token: Token,
    forwarded: String,
    /// Its base URLs and phantom keys.
    keys: Option<ModelKeys>,
    /// Its settings of git.
    of_forges: Vec<(String, String)>,
}

impl AgentEnvironment {
    /// Returns a command that runs `program` in the agent environment and ends as it does; the
    /// caller adds arguments. A plain name is looked up in that PATH, where the shims come first.
    pub fn command(&self, program: &OsStr) -> Command {
        self.command_with(program, &[])
    }

    /// Like [`command`](Self::command), with variables of its own. The session variables take
    /// precedence.
    pub fn command_with(&self, program: &OsStr, variables: &[(String, String)]) -> Command {
        match self {
            AgentEnvironment::Host(host) => host.command(program, variables),
            AgentEnvironment::Container(container) => container.command(program, variables),
        }
    }

    /// Returns the second path of the workspace there, if it has one.
    pub fn workspace_alias(&self) -> Option<&'static Path> {
        match self {
            AgentEnvironment::Host(_) => None,
            AgentEnvironment::Container(_) => Some(Path::new(CONTAINER_WORKSPACE)),
        }
    }

    /// Returns the session's temporary directory as the agent sees it.
    pub fn tmp(&self) -> &Path {
        match self {
            AgentEnvironment::Host(host) => &host.tmp,
            AgentEnvironment::Container(_) => Path::new(CONTAINER_TMP),
        }
    }

    /// Returns the path of `aifo-shim` there.
    pub fn shim(&self) -> PathBuf {
        self.shims().join("aifo-shim")
    }

    /// Returns the directory of shims as the agent sees it.
    pub(crate) fn shims(&self) -> &Path {
        match self {
            AgentEnvironment::Host(host) => &host.shims,
            AgentEnvironment::Container(_) => Path::new(container_path::SHIM_DIR),
        }
    }
}

impl HostEnvironment {
    fn command(&self, program: &OsStr, variables: &[(String, String)]) -> Command {
        let mut command = Command::new(program);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.envs(self.shim_variables.iter().map(|(name, value)| (name, value)));
        command.env("PATH", &self.path).env("TMPDIR", &self.tmp);
        let variable = |name: &str| {
            let own = variables.iter().find(|(known, _)| known == name);
            own.map(|(_, value)| value.into()).or_else(|| std::env::var_os(name))
        };
        command.envs(protective_git_variables(variable).unwrap_or_default());
        command
    }
}

impl ContainerEnvironment {
    /// Runs a shim that carries terminal, signals and exit status of the command in the container.
    fn command(&self, program: &OsStr, variables: &[(String, String)]) -> Command {
        let mut command = Command::new(self.shim.program());
        command.arg0("aifo-shim").args(["--call", agent_container::AGENT_PROGRAM]).arg(program);
        let (arguments, of_keys) = match &self.keys {
            Some(keys) => (keys.arguments_for(program), keys.variables()),
            None => (&[][..], &[][..]),
        };
        command.args(arguments);
        let variables = [of_keys, &self.of_forges, variables].concat();
        for (name, value) in std::env::vars_os() {
            if name.as_bytes().starts_with(env::PREFIX.as_bytes()) {
                command.env_remove(&name);
            }
            if let Some(given) = agent_variable_name(&name) {
                command.env(given, value);
            }
        }
        command.env(env::URL, &self.url);
        command.env(env::TOKEN, self.token.reveal());
        command.env(env::WORKSPACE, &self.workspace);
        command.env(env::FORWARDED, &self.forwarded);
        // Not on the command line, which every user can read.
        command.env(env::COMMAND_ENV, encode_variables(&variables));
        let host = std::env::current_dir().ok();
        let inside = host.filter(|host| host.starts_with(&self.workspace));
        let directory = inside.as_deref().unwrap_or(&self.workspace);
        // A logical path through a link outside does not exist in the container.
        command.current_dir(directory).env("PWD", directory);
        command
    }
}

const SETTINGS_FILE: &str = "shim.env";

/// Writes the variables for shims that start without an environment. Values with a line feed are
/// left out.
fn write_settings(path: &Path, shim_variables: &[(OsString, OsString)]) -> io::Result<()> {
    let mut text = Vec::new();
    for (name, value) in shim_variables {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the variables that a command sets.
    fn environment(command: &Command) -> Vec<(&OsStr, &OsStr)> {
        command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    #[test]
    fn variables_of_a_command_are_in_its_environment_only() {
        let variables = [("GIVEN", "secret"), ("PATH", "/theirs"), ("AIFO_WORKSPACE", "/theirs")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let host = AgentEnvironment::Host(HostEnvironment {
            shims: "/shims".into(),
            path: "/shims:/bin".into(),
            tmp: "/tmp".into(),
            shim_variables: vec![(env::WORKSPACE.into(), "/ws".into())],
        });
        let command = host.command_with(OsStr::new("make"), &variables);
        let set = environment(&command);
        for (name, value) in [("GIVEN", "secret"), ("PATH", "/shims:/bin"), (env::WORKSPACE, "/ws")]
        {
            assert!(set.contains(&(OsStr::new(name), OsStr::new(value))), "{name}: {set:?}");
        }

        let container = AgentEnvironment::Container(Box::new(ContainerEnvironment {
            shim: ShimBinary::stand_in(),
            workspace: "/ws".into(),
            url: "unix:///agent.sock".into(),
            token: Token::from_random([7; 16]),
            forwarded: env::COMMAND_ENV.into(),
            keys: None,
            of_forges: Vec::new(),
        }));
        let command = container.command_with(OsStr::new("make"), &variables);
        let given = encode_variables(&variables);
        assert!(
            environment(&command).contains(&(OsStr::new(env::COMMAND_ENV), OsStr::new(&given)))
        );
        let args: Vec<_> = command.as_std().get_args().collect();
        assert_eq!(args, ["--call", "aifo-agent", "make"]);
        // The launcher's own variable of that name is not passed on.
        let command = container.command(OsStr::new("make"));
        assert!(environment(&command).contains(&(OsStr::new(env::COMMAND_ENV), OsStr::new(""))));
    }
}
