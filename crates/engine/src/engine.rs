//! Finds an engine and runs its commands.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::command::EngineCommand;
use crate::facts::Facts;
use crate::flavor::Flavor;
use crate::messages::{error_line, is_out_of_subnets};
use crate::program::{MissingProgram, Program, Programs};

/// An engine that responds.
#[derive(Clone, Debug)]
pub struct Engine {
    flavor: Flavor,
    program: Program,
    facts: Arc<Facts>,
    /// Why an engine that comes first was not taken.
    passed_over: Option<String>,
}

/// The engines to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// docker, then podman; the first that responds.
    Any,
    /// This engine.
    Only(Flavor),
}

/// Why an engine cannot be used, or a command failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No program of that name is in PATH.
    #[error("no container engine found: {0} in PATH")]
    NotFound(&'static str),
    /// Every program of that name in PATH is untrusted.
    #[error(
        "cannot start {flavor}: '{}' is not a trusted program: {why}\n\
         hint: put the directory of the system's {flavor} into PATH", file.display()
    )]
    Untrusted {
        /// Which one.
        flavor: Flavor,
        /// The program.
        file: PathBuf,
        /// Why it is not trusted.
        why: &'static str,
    },
    /// It is installed, but its daemon does not run, or the user may not use it.
    #[error("{flavor} does not answer: {reason}")]
    NoAnswer {
        /// Which one.
        flavor: Flavor,
        /// Its error.
        reason: String,
    },
    /// It maps the users of containers to other users.
    #[error(
        "docker maps the users of containers to others (userns-remap), so files in the workspace \
         would not be yours\nhint: remove userns-remap from the daemon's configuration, or use \
         rootless docker or podman"
    )]
    UsersRemapped,
    /// A command failed.
    #[error("{} failed: {reason}{}", summary(command), hint_for(reason))]
    Failed {
        /// The command that was run.
        command: Box<EngineCommand>,
        /// Its error message, or its exit status.
        reason: String,
    },
    /// A command did not end in time.
    #[error("{} did not end within {} s", summary(command), secs)]
    TimedOut {
        /// The command that was run.
        command: Box<EngineCommand>,
        /// The timeout in seconds.
        secs: u64,
    },
    /// A path that `--mount` cannot carry.
    #[error("cannot mount '{}': its name contains a line break", .0.display())]
    UnmountablePath(PathBuf),
}

/// Timeout of commands that usually take milliseconds; more under load.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

impl Choice {
    fn flavors(self) -> Vec<Flavor> {
        match self {
            Choice::Any => vec![Flavor::Docker, Flavor::Podman],
            Choice::Only(flavor) => vec![flavor],
        }
    }
}

impl Engine {
    /// Finds an engine among `programs` and reads its properties. Errors: there is none, it does not
    /// respond, or it cannot be used; of several errors, that of the first installed engine.
    pub async fn find(choice: Choice, programs: &impl Programs) -> Result<Self, EngineError> {
        let mut failure: Option<EngineError> = None;
        for flavor in choice.flavors() {
            let found = match programs.find(flavor.program()) {
                Ok(program) => Engine::at(flavor, program).await,
                Err(MissingProgram::Absent) => continue,
                Err(MissingProgram::Untrusted { file, why }) => {
                    Err(EngineError::Untrusted { flavor, file, why })
                }
            };
            match found {
                Ok(engine) => {
                    let passed_over = failure.map(|error| error.to_string());
                    return Ok(Engine { passed_over, ..engine });
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or(EngineError::NotFound(match choice {
            Choice::Any => "neither docker nor podman is",
            Choice::Only(Flavor::Docker) => "docker is not",
            Choice::Only(Flavor::Podman) => "podman is not",
        })))
    }

    async fn at(flavor: Flavor, program: Program) -> Result<Self, EngineError> {
        let command = EngineCommand::new(&program);
        let command = match flavor {
            Flavor::Docker => command.args(["info", "--format", "{{json .}}"]),
            Flavor::Podman => command.args(["info", "--format", "json"]),
        };
        let no_answer = |reason: String| EngineError::NoAnswer { flavor, reason };
        let output = output(&command).await.map_err(|error| no_answer(error.to_string()))?;
        let facts = Facts::parse(flavor, &output.stdout).ok();
        match facts.filter(|facts| output.status.success() && !facts.version.is_empty()) {
            None => {
                let error =
                    Facts::server_error(&output.stdout).and_then(|error| error_line(&error));
                Err(no_answer(error.unwrap_or_else(|| failure_reason(&output))))
            }
            Some(facts) if facts.remapped => Err(EngineError::UsersRemapped),
            Some(facts) => Ok(Engine::with(flavor, program, facts)),
        }
    }

    pub(crate) fn with(flavor: Flavor, program: Program, facts: Facts) -> Self {
        Engine { flavor, program, facts: Arc::new(facts), passed_over: None }
    }

    /// Returns the kind of engine.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Returns why an installed engine that [`Choice::Any`] prefers was not taken, if so.
    pub fn passed_over(&self) -> Option<&str> {
        self.passed_over.as_deref()
    }

    /// Returns its properties.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns a command of this engine, without arguments.
    pub fn command(&self) -> EngineCommand {
        EngineCommand::new(&self.program)
    }

    /// Runs a command and returns its stdout. Errors: it failed, or timed out.
    pub async fn output(&self, command: &EngineCommand) -> Result<Vec<u8>, EngineError> {
        let output = output(command).await?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(EngineError::Failed {
            command: Box::new(command.clone()),
            reason: failure_reason(&output),
        })
    }

    /// Starts a command with a pipe on stderr, and on stdin and stdout if `attached`. If the container
    /// outlives the command, dropping the child kills the command.
    pub fn spawn(
        &self,
        command: &EngineCommand,
        attached: bool,
    ) -> std::io::Result<tokio::process::Child> {
        let stream = || if attached { Stdio::piped() } else { Stdio::null() };
        let mut child = tokio::process::Command::from(command.prepare());
        // Ctrl-C at the terminal must reach only the agent.
        child.process_group(0).kill_on_drop(self.container_outlives_command());
        child.stdin(stream()).stdout(stream()).stderr(Stdio::piped()).spawn()
    }

    /// Starts a command without waiting for it. It needs no runtime, and continues after this process
    /// has ended.
    pub fn spawn_detached(&self, command: &EngineCommand) -> std::io::Result<()> {
        use std::os::unix::process::CommandExt;
        let mut child = command.prepare();
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        child.process_group(0).spawn().map(drop)
    }

    /// Waits until the engine reports a container as running, so that others can join its network. The
    /// first process may run before that.
    pub async fn wait_until_running(&self, name: &str) -> Result<(), EngineError> {
        match self.flavor {
            // Its daemon answers no request before that.
            Flavor::Docker => Ok(()),
            Flavor::Podman => {
                let wait = ["wait", "--condition", "running", "--interval", "10ms", name];
                self.output(&self.command().args(wait)).await.map(|_| ())
            }
        }
    }

    /// Returns whether a container is independent of the command that has started it. Without a
    /// daemon, that command records the container state.
    pub fn container_outlives_command(&self) -> bool {
        self.flavor == Flavor::Docker
    }

    /// Returns the command that creates a session network.
    pub fn create_network(&self, name: &str, labels: &crate::Labels) -> EngineCommand {
        let words = labels.to_words();
        let labels = words.iter().flat_map(|label| ["--label", label.as_str()]);
        // Podman's networks reach each other by default.
        let isolation = match self.flavor {
            Flavor::Docker => &[][..],
            Flavor::Podman => &["--opt", "isolate=true"],
        };
        self.command().args(["network", "create"]).args(isolation).args(labels).arg(name)
    }

    /// Returns the value of an image's label; `None` if it has no such label, or the engine does not
    /// have the image.
    pub async fn image_label(&self, image: &str, label: &str) -> Option<String> {
        let format = format!("{{{{index .Config.Labels \"{label}\"}}}}");
        let inspect = self.command().args(["image", "inspect", "--format", &format, image]);
        let value = String::from_utf8(self.output(&inspect).await.ok()?).ok()?.trim().to_owned();
        (!matches!(value.as_str(), "" | "<no value>")).then_some(value)
    }

    /// Returns whether the engine has this image.
    pub async fn has_image(&self, image: &str) -> bool {
        self.output(&self.command().args(["image", "inspect", "--format", "{{.Id}}", image]))
            .await
            .is_ok()
    }

    /// Returns whether the engine has a network of this name.
    pub async fn has_network(&self, name: &str) -> bool {
        self.output(&self.command().args(["network", "inspect", "--format", "{{.Name}}", name]))
            .await
            .is_ok()
    }
}

async fn output(command: &EngineCommand) -> Result<Output, EngineError> {
    let mut child = tokio::process::Command::from(command.prepare());
    child.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    match tokio::time::timeout(COMMAND_TIMEOUT, child.output()).await {
        Ok(output) => output.map_err(|error| EngineError::Failed {
            command: Box::new(command.clone()),
            reason: error.to_string(),
        }),
        Err(_) => Err(EngineError::TimedOut {
            command: Box::new(command.clone()),
            secs: COMMAND_TIMEOUT.as_secs(),
        }),
    }
}

/// Returns the last line of a failed command's stderr, because the first is often a preamble.
fn failure_reason(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    error_line(&stderr).unwrap_or_else(|| format!("{} with no error output", output.status))
}

/// Returns a line `hint: ..` with its leading line break, or an empty text.
fn hint_for(reason: &str) -> &'static str {
    if is_out_of_subnets(reason) {
        return "\nhint: there are too many networks: remove those of killed sessions with \
                `aifo-coder clean`, and unused ones with the engine's `network prune`; or add address \
                ranges (default-address-pools in docker's daemon.json, default_subnet_pools in podman's \
                containers.conf)";
    }
    ""
}

/// Returns the command without its options: `docker network create`.
fn summary(command: &EngineCommand) -> String {
    let program = command.program.file.file_name().unwrap_or_default().to_string_lossy();
    let words = command.args.iter().map(|arg| arg.to_string_lossy());
    let words = words.take_while(|word| !word.starts_with('-')).take(2);
    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_command_without_options() {
        let command = EngineCommand::new(&Program::at("/usr/bin/docker"))
            .args(["network", "create", "--label", "a", "n"]);
        let error = EngineError::Failed { command: Box::new(command), reason: "no".to_owned() };
        assert_eq!(error.to_string(), "docker network create failed: no");
    }

    #[test]
    fn hints_at_cleanup_when_no_subnet_is_left() {
        let rows = [
            "could not find an available, non-overlapping IPv4 address pool among the defaults to \
             assign to the network",
            "all predefined address pools have been fully subnetted",
            "could not find free subnet from subnet pools",
        ];
        for reason in rows {
            assert!(hint_for(reason).contains("aifo-coder clean"), "{reason}");
        }
        assert_eq!(hint_for("network with name n already exists"), "");
    }
}
