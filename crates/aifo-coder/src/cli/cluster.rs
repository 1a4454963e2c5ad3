//! Flags of sessions in a cluster (`spec/kubernetes.md#run`).

use aifo_config::{Flags, FlagsOf, parse_subdomain};
use aifo_kube::client::PodOptions;
use clap::Args;

/// Flags of a session in a pod.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct PodFlags {
    /// Workspace: a persistent volume claim
    #[arg(long, value_name = "NAME", conflicts_with = "git", value_parser = parse_subdomain)]
    pvc: Option<String>,
    /// Workspace: this machine's, copied to the pod; its changes are fetched [default of `run` without --pvc and --git]
    #[arg(long, conflicts_with_all = ["git", "pvc"])]
    upload: bool,
    /// Upload ignored files, too
    #[arg(long, conflicts_with_all = ["git", "pvc"])]
    upload_ignored: bool,
    /// Workspace: a clone of a repository, at a branch or tag
    #[arg(long, value_name = "URL[#REF]")]
    git: Option<String>,
    /// Secret with `username` and `password` of the repository
    #[arg(long, value_name = "NAME", requires = "git", value_parser = parse_subdomain)]
    git_secret: Option<String>,
    /// Push the session's branch to the repository when the agent has ended
    #[arg(long, requires = "git")]
    git_push: bool,
    /// Seconds after which Kubernetes ends the pod [default: none]
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: Option<u64>,
    /// User and group id of all processes in the pod [default: 1000]
    #[arg(long, value_name = "UID", value_parser = clap::value_parser!(u32).range(1..))]
    user: Option<u32>,
    #[command(flatten)]
    cluster: FlagsOf<aifo_config::Cluster>,
    #[command(flatten)]
    pod: FlagsOf<aifo_config::Pod>,
}

impl PodFlags {
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        flags.and(self.cluster.flags()).and(self.pod.flags())
    }

    /// Returns the settings of the pod that are no keys.
    pub(crate) fn options(&self) -> PodOptions {
        PodOptions {
            claim: self.pvc.clone(),
            git: self.git.clone(),
            git_secret: self.git_secret.clone(),
            git_push: self.git_push,
            upload_ignored: self.upload_ignored,
            deadline_secs: self.deadline,
            user: self.user,
        }
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
        own.or_else(|| self.cluster.flags().names().chain(self.pod.flags().names()).next())
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
    pub(crate) fn flags(&self) -> Flags {
        let backend = self.backend.iter().cloned().collect();
        self.keys.flags().clone().with("--backend", backend)
    }
}
