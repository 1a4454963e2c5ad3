//! Flags of a session.

use std::path::{Path, PathBuf};

use aifo_config::{Flags, FlagsOf, UsageError};
use aifo_launch::RunnerTransport;
use clap::{Args, ValueHint};

/// The default of `--workspace`.
pub(crate) fn default_workspace() -> PathBuf {
    aifo_host::default_workspace(Path::new("."))
}

#[derive(Debug, Args)]
pub(crate) struct Session {
    #[command(flatten)]
    pub(crate) project: Project,
    #[command(flatten)]
    keys: FlagsOf<aifo_config::Session>,
    /// Transport to runners: socket (passes the caller's descriptors), stdio (relays all streams,
    /// for engines with another kernel) or auto
    #[arg(long, value_name = "HOW", value_parser = parse_transport, default_value = "auto")]
    pub(crate) runner_transport: RunnerTransport,
    /// Only print warnings and errors on stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    // Last, because its heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) containers: ContainerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Project {
    #[command(flatten)]
    pub(crate) workspace: Workspace,
    #[command(flatten)]
    keys: FlagsOf<aifo_config::Project>,
}

#[derive(Debug, Args)]
pub(crate) struct Workspace {
    /// Workspace directory; tools run in it and below [default: the top level of the git repository,
    /// else the current directory]
    #[arg(
        id = "workspace",
        long = "workspace",
        value_name = "DIR",
        default_value_os_t = default_workspace(),
        hide_default_value = true,
        value_hint = ValueHint::DirPath
    )]
    pub(crate) path: PathBuf,
}

impl Workspace {
    /// Returns the directory. Errors: it is none.
    pub(crate) fn existing(&self) -> Result<&Path, UsageError> {
        let path = &self.path;
        let found = std::fs::metadata(path);
        let why = match found {
            Ok(found) if found.is_dir() => return Ok(path),
            Ok(_) => "it is not a directory".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(UsageError(format!(
            "'{}' cannot be the workspace: {why}\nhint: --workspace DIR names a project's directory",
            path.display()
        )))
    }
}

/// Flags for the backend and containers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub(crate) struct ContainerArgs {
    #[command(flatten)]
    keys: FlagsOf<aifo_config::Containers>,
    /// Print the engine's commands without running them
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Flags for the containers of a session that is not started.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub(crate) struct ContainerFlags {
    #[command(flatten)]
    keys: FlagsOf<aifo_config::Containers>,
}

/// Flags for smart decisions.
#[derive(Debug, Args)]
pub(crate) struct SmartFlags {
    #[command(flatten)]
    keys: FlagsOf<aifo_config::Smart>,
}

/// Flags for an agent's state.
#[derive(Debug, Args)]
pub(crate) struct StateFlags {
    #[command(flatten)]
    keys: FlagsOf<aifo_config::State>,
}

/// The flag for an agent's permission requests.
#[derive(Debug, Args)]
pub(crate) struct YesTo {
    #[command(flatten)]
    keys: FlagsOf<aifo_config::Permissions>,
}

impl Session {
    pub(crate) fn flags(&self) -> Flags {
        self.project.flags().and(self.keys.flags()).and(self.containers.keys.flags())
    }
}

impl Project {
    pub(crate) fn flags(&self) -> Flags {
        self.keys.flags().clone()
    }
}

impl ContainerFlags {
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        flags.and(self.keys.flags())
    }
}

impl SmartFlags {
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        flags.and(self.keys.flags())
    }
}

impl StateFlags {
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        flags.and(self.keys.flags())
    }
}

impl YesTo {
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        flags.and(self.keys.flags())
    }
}

fn parse_transport(word: &str) -> Result<RunnerTransport, &'static str> {
    match word {
        "auto" => Ok(RunnerTransport::Auto),
        "socket" => Ok(RunnerTransport::Socket),
        "stdio" => Ok(RunnerTransport::Stdio),
        _ => Err("expected auto, socket or stdio"),
    }
}
