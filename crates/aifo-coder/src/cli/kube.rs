//! `aifo-coder kube` (`spec/kubernetes.md`).

use clap::{Args, Subcommand};

use super::help::{KUBE_FETCH, KUBE_RBAC, KUBE_RENDER, KUBE_RENDER_USAGE};
use super::run::Run;
use crate::config::{self, Flags, FlagsOf};

/// Print sessions as manifests for Kubernetes
#[derive(Debug, Args)]
pub(crate) struct Kube {
    #[command(subcommand)]
    pub(crate) command: KubeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KubeCommand {
    /// Print a session as a pod, for `kubectl apply` and `podman kube play`
    #[command(override_usage = KUBE_RENDER_USAGE, after_help = KUBE_RENDER)]
    Render(Box<KubeRender>),
    /// Print the role to run sessions in a namespace, for a user, a group or a service account
    #[command(after_help = KUBE_RBAC)]
    Rbac(KubeRbac),
    /// Fetch the changes of an uploaded workspace from its pod
    #[command(after_help = KUBE_FETCH)]
    Fetch(KubeFetch),
}

#[derive(Debug, Args)]
pub(crate) struct KubeFetch {
    /// Start of the session's id [default: the only session]
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, Args)]
pub(crate) struct KubeRender {
    /// Id of the session, 16 hexadecimal digits [default: random]
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub(crate) session_id: Option<String>,
    /// Run the agent without a terminal
    #[arg(long)]
    pub(crate) no_tty: bool,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// Flags of a session in a pod.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct PodFlags {
    /// Workspace: a persistent volume claim
    #[arg(long, value_name = "NAME", conflicts_with = "git")]
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
    #[arg(long, value_name = "NAME", requires = "git")]
    pub(crate) git_secret: Option<String>,
    /// Seconds after which Kubernetes ends the pod [default: none]
    #[arg(long, value_name = "SECS")]
    pub(crate) deadline: Option<u64>,
    /// User and group id of all processes in the pod [default: 1000]
    #[arg(long, value_name = "UID")]
    pub(crate) user: Option<u32>,
    #[command(flatten)]
    cluster: FlagsOf<config::Cluster>,
    #[command(flatten)]
    pod: FlagsOf<config::Pod>,
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
    keys: FlagsOf<config::Cluster>,
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

#[derive(Debug, Args)]
pub(crate) struct KubeRbac {
    /// Namespace of the sessions
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) subject: KubeSubject,
}

/// The subject of a role.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct KubeSubject {
    /// User of the cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Group of users
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Service account of the namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) service_account: Option<String>,
}

fn parse_id(word: &str) -> Result<String, &'static str> {
    let is_id =
        word.len() == 16 && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_id { Ok(word.to_owned()) } else { Err("expected 16 hexadecimal digits") }
}
