//! Commands that remove sessions, caches and states of agents.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};

use super::session::default_workspace;

#[derive(Debug, Args)]
pub(crate) struct Cleanup {
    /// Print what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only clean up the session whose id starts with this
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// List cache volumes of engines and cache directories of local sidecars
    List {
        /// Only caches of these toolchains
        #[arg(value_name = "KIND", value_delimiter = ',')]
        kinds: Vec<String>,
        /// Print sizes, which may take a while
        #[arg(long)]
        sizes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove caches, except those in use
    Clear(CacheClear),
}

#[derive(Debug, Args)]
pub(crate) struct State {
    #[command(subcommand)]
    pub(crate) command: StateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// List the states that aifo keeps, by agent and project
    List {
        /// Only states of these agents
        #[arg(value_name = "AGENT", value_delimiter = ',')]
        agents: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove states, except those in use: settings, conversations and copies of logins
    Clear(StateClear),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true)
    .args(["agents", "project", "gone", "all"])))]
pub(crate) struct StateClear {
    /// Only states of these agents
    #[arg(value_name = "AGENT", value_delimiter = ',')]
    pub(crate) agents: Vec<String>,
    /// Only states of the workspace's project
    #[arg(long, conflicts_with = "gone")]
    pub(crate) project: bool,
    /// Workspace for --project
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath, requires = "project")]
    pub(crate) workspace: PathBuf,
    /// Only states of projects that no longer exist
    #[arg(long)]
    pub(crate) gone: bool,
    /// All states
    #[arg(long, conflicts_with_all = ["agents", "project", "gone"])]
    pub(crate) all: bool,
    /// Print what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CacheClear {
    /// Only caches of these toolchains
    #[arg(value_name = "KIND", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Only caches of the workspace's project
    #[arg(long, conflicts_with_all = ["user", "gone"])]
    pub(crate) project: bool,
    /// Workspace for --project
    #[arg(long, value_name = "DIR", default_value_os_t = default_workspace(), hide_default_value = true, value_hint = ValueHint::DirPath, requires = "project")]
    pub(crate) workspace: PathBuf,
    /// Only caches shared by your projects
    #[arg(long, conflicts_with = "gone")]
    pub(crate) user: bool,
    /// Only caches of projects that no longer exist
    #[arg(long)]
    pub(crate) gone: bool,
    /// Print what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
}
