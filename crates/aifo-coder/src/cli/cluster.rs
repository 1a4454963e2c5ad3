//! Flags of sessions in a cluster (`spec/kubernetes.md#run`).

use aifo_config::{Flags, FlagsOf, parse_subdomain};
use clap::Args;

/// Flags of a session in a pod.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct PodFlags {
    /// Workspace: a persistent volume claim
    #[arg(long, value_name = "NAME", conflicts_with = "git", value_parser = parse_subdomain)]
    pub(crate) pvc: Option<String>,
    /// Workspace: this machine's, copied to the pod; its changes are fetched [default of `run` without --pvc and --git]
    #[arg(long, conflicts_with_all = ["git", "pvc"])]
    pub(crate) upload: bool,
    /// Upload ignored files, too
    #[arg(long, conflicts_with_all = ["git", "pvc"])]
    pub(crate) upload_ignored: bool,
    /// Workspace: a clone of a repository, at a branch or tag
    #[arg(long, value_name = "URL[#REF]")]
    pub(crate) git: Option<String>,
    /// Secret with `username` and `password` of the repository
    #[arg(long, value_name = "NAME", requires = "git", value_parser = parse_subdomain)]
    pub(crate) git_secret: Option<String>,
    /// Push the session's branch to the repository when the agent has ended
    #[arg(long, requires = "git")]
    pub(crate) git_push: bool,
    /// Seconds after which Kubernetes ends the pod [default: none]
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline: Option<u64>,
    /// User and group id of all processes in the pod [default: 1000]
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) user: Option<u32>,
    #[command(flatten)]
    cluster: FlagsOf<aifo_config::Cluster>,
    #[command(flatten)]
    pod: FlagsOf<aifo_config::Pod>,
}

impl PodFlags {
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        flags.and(self.cluster.flags()).and(self.pod.flags())
    }

    /// Returns the first flag that is only for pods, if one is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let own = [
            ("--pvc", self.pvc.is_some()),
            ("--git", self.git.is_some()),
            ("--upload", self.upload),
            ("--upload-ignored", self.upload_ignored),
            ("--deadline", self.deadline.is_some()),
            ("--user", self.user.is_some()),
        ];
        let own = own.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
        own.or_else(|| self.cluster.flags().first()).or_else(|| self.pod.flags().first())
    }
}

/// Flags of commands on sessions of a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct ClusterFlags {
    /// Use the sessions of a cluster: kubernetes [default: those of this machine, unless the
    /// configuration's backend is kubernetes]
    #[arg(long, value_name = "HOW", value_parser = ["kubernetes"])]
    pub(crate) backend: Option<String>,
    #[command(flatten)]
    keys: FlagsOf<aifo_config::Cluster>,
}

impl ClusterFlags {
    /// Returns the first flag that selects a cluster, if one is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.keys.flags().first()
    }

    pub(crate) fn flags(&self) -> Flags {
        let backend = self.backend.iter().cloned().collect();
        self.keys.flags().clone().with("--backend", backend)
    }
}
