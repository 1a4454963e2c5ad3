//! Commands that print facts about sessions, calls, agents and the configuration.

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_config::{Flags, FlagsOf};
use clap::{Args, Subcommand, ValueHint};
use clap_complete::Shell;

use super::cluster::ClusterFlags;
use super::session::{Project, Session, SmartFlags, Workspace, YesTo};

#[derive(Debug, Args)]
pub(crate) struct Agents {
    #[command(flatten)]
    pub(crate) workspace: Workspace,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Working directory of the call [default: the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Name of the calling agent's command [env: AIFO_AGENT_NAME]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) smart: SmartFlags,
    /// Explain for each variable of this environment whether it is forwarded
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Explain the image of each toolchain instead of a call
    #[arg(long, conflicts_with = "words")]
    pub(crate) toolchains: bool,
    /// Explain which rules allow or refuse a name, with the addresses that it has here, instead of a call
    #[arg(long, value_name = "NAME[:PORT]", conflicts_with_all = ["toolchains", "verbose", "words"])]
    pub(crate) net: Option<String>,
    /// Explain a call of the session in a pod whose id starts with ID
    #[arg(long, value_name = "ID", conflicts_with_all = ["toolchains", "verbose"])]
    pub(crate) session: Option<String>,
    /// Explain an agent's request of this kind, such as edit, instead of a call
    #[arg(long, value_name = "KIND", conflicts_with_all = ["toolchains", "session", "verbose"])]
    pub(crate) kind: Option<String>,
    /// File or directory of the request; repeatable
    #[arg(long, value_name = "PATH", conflicts_with_all = ["toolchains", "session", "verbose"])]
    pub(crate) path: Vec<String>,
    /// Tool and its arguments; of a request, its command: one word is shell text
    #[arg(
        required_unless_present_any = ["toolchains", "kind", "path", "net"],
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "TOOL"
    )]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

/// The session that a command is about.
#[derive(Debug, Args)]
pub(crate) struct OfSession {
    /// Name of the session, or start of its id [default: that of the current project, else the only one]
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Print new calls until the session ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only print calls that were refused or failed
    #[arg(long)]
    pub(crate) failed: bool,
    /// Also print what the agent calls for itself, repeats and long arguments
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Also print the connections of a network by name
    #[arg(long)]
    pub(crate) net: bool,
    /// Print the lines of the log unchanged
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) of: OfSession,
}

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Also print ids, processes, agents and containers
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "verbose")]
    pub(crate) json: bool,
    /// Print words for shell completion
    #[arg(long, value_name = "WORD", hide = true, conflicts_with = "json")]
    pub(crate) complete: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    #[command(flatten)]
    pub(crate) of: OfSession,
}

#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) of: OfSession,
}

#[derive(Debug, Args)]
pub(crate) struct Detach {
    #[command(flatten)]
    pub(crate) of: OfSession,
}

#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Wait for further calls
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Answer one question: once, session, always, deny or end
    #[arg(long, num_args = 2, value_names = ["ID", "ANSWER"], conflicts_with = "watch")]
    pub(crate) answer: Vec<String>,
    #[command(flatten)]
    pub(crate) of: OfSession,
}

#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// Name or start of the id of a session [default: that of the current project, else the only one]
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Port of the tools: PORT, HOST:PORT or ADDR:HOST:PORT
    #[arg(value_name = "PORT")]
    pub(crate) port: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Backend to check: docker, podman, local or kubernetes (a cluster) [default: the configured one, or
    /// all that are installed]
    #[arg(long, value_name = "HOW")]
    pub(crate) backend: Option<String>,
    /// Image of a toolchain's containers; repeatable
    #[arg(long = "toolchain-image", value_name = "KIND=IMAGE")]
    pub(crate) images: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten, next_help_heading = "Kubernetes")]
    cluster: FlagsOf<aifo_config::Cluster>,
}

impl Doctor {
    /// Returns the first flag that selects a cluster, if one is given.
    pub(crate) fn given_for_cluster(&self) -> Option<&'static str> {
        self.cluster.flags().names().next()
    }

    pub(crate) fn flags(&self) -> Flags {
        let backend = self.backend.iter().cloned().collect();
        let flags = self.project.flags().and(self.cluster.flags()).with("--backend", backend);
        flags.with("--toolchain-image", self.images.clone())
    }
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show all values with their sources
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        yes_to: YesTo,
        #[command(flatten)]
        session: Box<Session>,
    },
    /// Print the path of the user's configuration file
    Path,
    /// Check the user's and the workspace's file, or FILE
    Check {
        /// File to check; .aifo.toml is checked as a workspace's file
        #[arg(value_name = "FILE", conflicts_with = "workspace")]
        file: Option<PathBuf>,
        #[command(flatten)]
        workspace: Workspace,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to generate the script for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Output directory, created if missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}
