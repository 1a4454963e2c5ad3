//! Commands that remove sessions, caches and states of agents.

use std::path::Path;

use aifo_host::Project;
use aifo_sidecar::ProjectKey;
use anyhow::Context;
use clap::{ArgGroup, Args, Subcommand};

use super::cluster::ClusterFlags;
use super::session::Workspace;

#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// Print what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Remove the checkpoints of this directory's project instead
    #[arg(long, conflicts_with = "session")]
    pub(crate) history: bool,
    /// Only clean up the session whose id starts with this
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// List cache volumes of engines and cache directories of local sidecars, with their sizes
    List {
        /// Only caches of these toolchains
        #[arg(value_name = "KIND", value_delimiter = ',')]
        kinds: Vec<String>,
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
    /// Copy your settings into the states of this project once more, over changes that agents made in them
    Refresh {
        /// Only states of these agents
        #[arg(value_name = "AGENT", value_delimiter = ',')]
        agents: Vec<String>,
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
    #[command(flatten)]
    pub(crate) of: ProjectFilter,
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
    #[command(flatten)]
    pub(crate) of: ProjectFilter,
    /// Only caches shared by your projects
    #[arg(long, conflicts_with_all = ["project", "gone"])]
    pub(crate) user: bool,
    /// Print what would be removed, without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Flags that select by project.
#[derive(Debug, Args)]
#[command(mut_arg("workspace", |arg| arg.requires("project").help("Workspace for --project")))]
pub(crate) struct ProjectFilter {
    /// Only those of the workspace's project
    #[arg(long, conflicts_with = "gone")]
    project: bool,
    #[command(flatten)]
    workspace: Workspace,
    /// Only those of projects that no longer exist
    #[arg(long)]
    pub(crate) gone: bool,
}

impl ProjectFilter {
    /// Returns the key of the selected project. Errors: there is no such workspace.
    pub(crate) fn key(&self) -> anyhow::Result<Option<ProjectKey>> {
        if !self.project {
            return Ok(None);
        }
        let path = self.workspace.existing()?;
        let real =
            path.canonicalize().with_context(|| format!("no workspace '{}'", path.display()))?;
        Ok(Some(Project::of(&real).key()))
    }
}

/// Returns whether a project's root no longer exists. One that cannot be inspected may exist.
pub(crate) fn is_gone(root: &Path) -> bool {
    matches!(root.try_exists(), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, default_workspace};
    use clap::Parser;

    #[test]
    fn filters_exclude_each_other() {
        for (line, is_valid) in [
            ("cache clear", true),
            ("cache clear --project --workspace / rust", true),
            ("cache clear --workspace /", false),
            ("cache clear --project --user", false),
            ("cache clear --project --gone", false),
            ("cache clear --user --gone", false),
            ("state clear", false),
            ("state clear --project --workspace / codex", true),
            ("state clear --workspace / codex", false),
            ("state clear --project --gone", false),
            ("state clear --all --gone", false),
            ("state clear --all --project", false),
        ] {
            let words = ["aifo-coder"].into_iter().chain(line.split(' '));
            assert_eq!(Cli::try_parse_from(words).is_ok(), is_valid, "{line}");
        }
    }

    #[test]
    fn a_project_is_that_of_the_default_workspace() {
        let cli = Cli::try_parse_from(["aifo-coder", "state", "clear", "--project"]).unwrap();
        let crate::cli::Command::State(state) = cli.command else { panic!("another command") };
        let StateCommand::Clear(flags) = state.0.command else { panic!("another command") };
        let workspace = default_workspace().canonicalize().unwrap();
        assert_eq!(flags.of.key().unwrap(), Some(Project::of(&workspace).key()));
    }
}
