//! Commands about the connections of a session's network by name.

use clap::{Args, Subcommand, ValueHint};

use super::cluster::ClusterFlags;
use super::session::{ContainerFlags, Project, Workspace};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Net {
    #[command(subcommand)]
    pub(crate) command: Option<NetCommand>,
    #[command(flatten)]
    pub(crate) list: NetList,
}

#[derive(Debug, Args)]
pub(crate) struct NetList {
    /// Print new connections until the session ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only print connections that were refused or failed
    #[arg(long)]
    pub(crate) failed: bool,
    /// Print the lines of the file unchanged
    #[arg(long)]
    pub(crate) json: bool,
    /// Start of the session's id [default: the session with the latest connection; with -f the newest
    /// running session]
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NetCommand {
    /// Print the rules that a session lacked, as lines for the user's file
    Suggest {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Start of the session's id [default: the session with the latest connection]
        #[arg(value_name = "SESSION")]
        session: Option<String>,
    },
    /// Add rules to your configuration file and to running sessions
    Allow(NetAllow),
    /// Remove rules from your configuration file
    Forget(NetAllow),
    /// List the rules of a session in this project, with their sources
    List {
        #[command(flatten)]
        workspace: Workspace,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Explain which rules allow or refuse a name, as `why --net` does
    #[command(hide = true)]
    Check(Box<NetCheck>),
}

#[derive(Debug, Args)]
pub(crate) struct NetAllow {
    /// Only for tools of this toolchain
    #[arg(long, value_name = "KIND", conflicts_with = "for_agent")]
    pub(crate) kind: Option<String>,
    /// Only for the agent
    #[arg(long = "agent", id = "for_agent")]
    pub(crate) agent: bool,
    /// Rules and groups: NAME, NAME:PORT, '*.NAME', @GROUP
    #[arg(value_name = "RULE", required = true)]
    pub(crate) rules: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NetCheck {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Also apply the hosts of this agent
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name, and port if it is not 443
    #[arg(value_name = "NAME[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) name: String,
    // Last, because its heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) containers: ContainerFlags,
}
