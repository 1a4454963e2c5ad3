//! Commands that run a session.

use std::ffi::OsString;

use aifo_config::{Flags, FlagsOf};
use clap::Args;

use super::cluster::PodFlags;
use super::session::{Session, SmartFlags, StateFlags};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Keep the session when the terminal is closed, for `aifo-coder attach`; Ctrl-\ d leaves it
    #[arg(long, conflicts_with = "detach")]
    pub(crate) keep: bool,
    /// Start without a terminal, for `aifo-coder attach`, and print the session's id
    #[arg(long)]
    pub(crate) detach: bool,
    /// The session's id, given by its holder
    #[arg(long, hide = true, value_name = "ID")]
    pub(crate) held: Option<String>,
    #[command(flatten)]
    pub(crate) start: AgentStart,
    #[command(flatten)]
    pub(crate) smart: SmartFlags,
    #[command(flatten)]
    pub(crate) state: StateFlags,
    /// Agent (see `aifo-coder agents`) and its arguments, run in a container; or after `--` a
    /// command, run on this machine or, with --image, in a container
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "AGENT"
    )]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) session: Session,
    #[command(flatten)]
    pub(crate) pod: PodFlags,
}

/// Flags for the start of an agent.
#[derive(Debug, Args)]
pub(crate) struct AgentStart {
    /// Image of the agent's or command's container
    #[arg(long, value_name = "IMAGE", value_parser = parse_image)]
    pub(crate) image: Option<String>,
    /// Start even if another agent uses the workspace
    #[arg(long)]
    pub(crate) force_share: bool,
}

/// Rejects texts that no engine accepts as the name of an image.
pub(super) fn parse_image(word: &str) -> Result<String, &'static str> {
    if aifo_config::is_engine_word(word) {
        Ok(word.to_owned())
    } else {
        Err("expected an image's name")
    }
}

/// The program that [`Run`] starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunTarget<'a> {
    /// An agent and its arguments.
    Agent(&'a OsString, &'a [OsString]),
    /// A command: program and arguments.
    Command(&'a [OsString]),
}

impl Run {
    /// Returns the flags that are keys of the configuration.
    pub(crate) fn flags(&self) -> Flags {
        self.pod.add_to(self.state.add_to(self.smart.add_to(self.session.flags())))
    }

    /// Returns the program to start. `line` is the whole command line, which ends with these words:
    /// a `--` before the first word makes them a command.
    pub(crate) fn target(&self, line: &[OsString]) -> RunTarget<'_> {
        let before = line.len().checked_sub(self.words.len() + 1).and_then(|at| line.get(at));
        match self.words.split_first() {
            Some((agent, args)) if before.is_none_or(|word| word != "--") => {
                RunTarget::Agent(agent, args)
            }
            _ => RunTarget::Command(&self.words),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) session: Session,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Use the running session whose id starts with ID
    #[arg(long = "session", value_name = "ID", conflicts_with_all = ["toolchain", "workspace", "listen", "idle-stop", "max-secs", "env"])]
    pub(crate) running: Option<String>,
    #[command(flatten)]
    pub(crate) call: ToolCall,
    #[command(flatten)]
    pub(crate) session: Session,
    #[command(flatten)]
    pub(crate) cluster: FlagsOf<aifo_config::Cluster>,
}

#[derive(Debug, Args)]
pub(crate) struct ToolCall {
    /// Tool and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "TOOL"
    )]
    pub(crate) words: Vec<OsString>,
}
