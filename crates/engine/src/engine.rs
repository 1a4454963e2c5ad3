//! Finding an engine, and having it do something.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::command::EngineCommand;
use crate::facts::Facts;
use crate::flavor::Flavor;
use crate::program::{MissingProgram, Program, Programs};

/// An engine that has answered.
#[derive(Clone, Debug)]
pub struct Engine {
    flavor: Flavor,
    program: Program,
    facts: Facts,
}

/// Which engine is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first that answers: docker, then podman.
    Any,
    /// This one.
    Only(Flavor),
}

/// Why an engine is of no use.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No program of that name is in PATH.
    #[error("no container engine was found: {0} in PATH")]
    NotFound(&'static str),
    /// The only program of that name in PATH must not be started.
    #[error(
        "{flavor} is not started: '{}' is not a trusted program: {why}\n\
         hint: put the directory of the system's own {flavor} into PATH", file.display()
    )]
    Untrusted {
        /// Which one.
        flavor: Flavor,
        /// The program.
        file: PathBuf,
        /// Why it is not trusted.
        why: &'static str,
    },
    /// It is installed, but its daemon is not running, or not ours to use.
    #[error("{flavor} does not answer: {reason}")]
    NoAnswer {
        /// Which one.
        flavor: Flavor,
        /// What it said.
        reason: String,
    },
    /// It gives containers other users than it is asked for.
    #[error(
        "docker maps the users of containers to others (userns-remap), so files in the workspace \
         would not be yours\nhint: take userns-remap out of the daemon's configuration, or use \
         rootless docker or podman"
    )]
    UsersRemapped,
    /// A command failed.
    #[error("{} failed: {reason}{}", summary(command), hint_for(reason))]
    Failed {
        /// What was run.
        command: Box<EngineCommand>,
        /// What it said, or how it ended.
        reason: String,
    },
    /// A command of the engine's did not end.
    #[error("{} did not end within {} s", summary(command), secs)]
    TimedOut {
        /// What was run.
        command: Box<EngineCommand>,
        /// How long it was waited for.
        secs: u64,
    },
    /// A path that stands for something else on the engine's command line.
    #[error("'{}' cannot be mounted: its name has a comma, a quote or a line break", .0.display())]
    UnmountablePath(PathBuf),
}

/// How long an engine may take for something that is done in milliseconds. A machine that starts
/// everything at once may be slow; a daemon that hangs is for ever.
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
    /// Finds an engine among `programs` and asks for its facts. Errors: there is none, it does not
    /// answer, or it cannot be used; of several, the error of the first that is installed.
    pub async fn find(choice: Choice, programs: &impl Programs) -> Result<Self, EngineError> {
        let mut failure = None;
        for flavor in choice.flavors() {
            let found = match programs.find(flavor.program()) {
                Ok(program) => Engine::at(flavor, program).await,
                Err(MissingProgram::Absent) => continue,
                Err(MissingProgram::Untrusted { file, why }) => {
                    Err(EngineError::Untrusted { flavor, file, why })
                }
            };
            match found {
                Ok(engine) => return Ok(engine),
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
                let told = Facts::server_error(&output.stdout).and_then(|told| error_line(&told));
                Err(no_answer(told.unwrap_or_else(|| failure_reason(&output))))
            }
            Some(facts) if facts.remapped => Err(EngineError::UsersRemapped),
            Some(facts) => Ok(Engine { flavor, program, facts }),
        }
    }

    /// Which engine it is.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// What it told about itself.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// A command of this engine, without arguments yet.
    pub fn command(&self) -> EngineCommand {
        EngineCommand::new(&self.program)
    }

    /// Runs a command to its end and returns what it printed. Errors: it failed, or is stuck.
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

    /// Starts a command and stays its parent. Its stderr is always ours to read; stdin and stdout
    /// only if `attached`. A command that nothing depends on is killed when the child is dropped.
    pub fn spawn(
        &self,
        command: &EngineCommand,
        attached: bool,
    ) -> std::io::Result<tokio::process::Child> {
        let stream = || if attached { Stdio::piped() } else { Stdio::null() };
        let mut child = tokio::process::Command::from(command.prepare());
        // A terminal's Ctrl-C is for the agent.
        child.process_group(0).kill_on_drop(self.container_outlives_command());
        child.stdin(stream()).stdout(stream()).stderr(Stdio::piped()).spawn()
    }

    /// Starts a command that nobody waits for, nor hears of. It needs no runtime, and goes on when we
    /// have ended.
    pub fn spawn_detached(&self, command: &EngineCommand) -> std::io::Result<()> {
        use std::os::unix::process::CommandExt;
        let mut child = command.prepare();
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        child.process_group(0).spawn().map(drop)
    }

    /// Waits until the engine itself counts a container as running, which may be later than its first
    /// process does, and others can be joined to it.
    pub async fn wait_until_running(&self, name: &str) -> Result<(), EngineError> {
        match self.flavor {
            // Its daemon lets nobody ask before that.
            Flavor::Docker => Ok(()),
            Flavor::Podman => {
                let wait = ["wait", "--condition", "running", "--interval", "10ms", name];
                self.output(&self.command().args(wait)).await.map(|_| ())
            }
        }
    }

    /// Whether a container goes on as it should without the command that has started it. Without a
    /// daemon it is that command which keeps its books.
    pub fn container_outlives_command(&self) -> bool {
        self.flavor == Flavor::Docker
    }

    /// The command that makes a session's network.
    pub fn create_network(&self, name: &str, labels: &crate::Labels) -> EngineCommand {
        let words = labels.to_words();
        let labels = words.iter().flat_map(|label| ["--label", label.as_str()]);
        // Podman's networks reach each other unless they are told not to.
        let isolation = match self.flavor {
            Flavor::Docker => &[][..],
            Flavor::Podman => &["--opt", "isolate=true"],
        };
        self.command().args(["network", "create"]).args(isolation).args(labels).arg(name)
    }

    /// Which of these images the engine has already.
    pub async fn has_image(&self, image: &str) -> bool {
        self.output(&self.command().args(["image", "inspect", "--format", "{{.Id}}", image]))
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

/// What a command says of its own failure: its last words, for the first are often a preamble.
fn failure_reason(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    error_line(&said).unwrap_or_else(|| format!("{} with no error output", output.status))
}

/// The last line with something on it, without the engine's own introduction.
pub fn error_line(said: &str) -> Option<String> {
    let hint = |line: &&str| !line.starts_with("See '") && !line.starts_with("Run '");
    let line = said.lines().map(str::trim).filter(|line| !line.is_empty()).rfind(hint)?;
    let starts = ["Error response from daemon: ", "Error: ", "docker: "];
    let stripped = starts.iter().fold(line, |line, start| line.strip_prefix(start).unwrap_or(line));
    let stripped = stripped.strip_prefix(starts[0]).unwrap_or(stripped);
    Some(stripped.trim_end_matches('.').to_owned())
}

/// What helps against a complaint, on a line of its own, where that is known.
fn hint_for(reason: &str) -> &'static str {
    // An older docker's words, a newer one's, and podman's.
    let no_room = [
        "could not find an available, non-overlapping IPv4 address pool",
        "all predefined address pools have been fully subnetted",
        "could not find free subnet from subnet pools",
    ];
    if no_room.iter().any(|words| reason.contains(words)) {
        return "\nhint: there are too many networks: `aifo-coder cleanup` removes those of killed \
                sessions, and `network prune` of the engine's those that nobody uses; or give it more \
                ranges (default-address-pools in docker's daemon.json, default_subnet_pools in podman's \
                containers.conf)";
    }
    ""
}

/// `docker network create`: what failed, without its details.
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
    fn what_an_engine_complains_of() {
        let rows = [
            (
                "docker: Error response from daemon: No such image: x.\nSee 'docker run --help'.\n",
                "No such image: x",
            ),
            ("Error: no container with name a\n", "no container with name a"),
            ("Trying to pull x...\nError: short-name\n\n", "short-name"),
        ];
        for (said, expected) in rows {
            assert_eq!(error_line(said).as_deref(), Some(expected), "{said}");
        }
        assert_eq!(error_line(" \n"), None);
    }

    #[test]
    fn a_failure_is_named_by_its_verb() {
        let command = EngineCommand::new(&Program::at("/usr/bin/docker"))
            .args(["network", "create", "--label", "a", "n"]);
        let error = EngineError::Failed { command: Box::new(command), reason: "no".to_owned() };
        assert_eq!(error.to_string(), "docker network create failed: no");
    }

    #[test]
    fn what_helps_where_there_is_no_room() {
        let rows = [
            "could not find an available, non-overlapping IPv4 address pool among the defaults to \
             assign to the network",
            "all predefined address pools have been fully subnetted",
            "could not find free subnet from subnet pools",
        ];
        for reason in rows {
            assert!(hint_for(reason).contains("aifo-coder cleanup"), "{reason}");
        }
        assert_eq!(hint_for("network with name n already exists"), "");
    }
}
