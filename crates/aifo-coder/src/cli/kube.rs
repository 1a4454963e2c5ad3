//! `aifo-coder kube` (`spec/kubernetes.md`).

use aifo_config::parse_label;
use clap::{Args, Subcommand};

use super::cluster::ClusterFlags;
use super::help::KUBE_RENDER_USAGE;
use super::run::Run;

/// Print sessions as manifests for Kubernetes
#[derive(Debug, Args)]
pub(crate) struct Kube {
    #[command(subcommand)]
    pub(crate) command: KubeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KubeCommand {
    /// Print a session as a pod, for `kubectl apply` and `podman kube play`
    #[command(override_usage = KUBE_RENDER_USAGE)]
    Render(Box<KubeRender>),
    /// Print the role to run sessions in a namespace, for a user, a group or a service account
    Rbac(KubeRbac),
    /// Fetch the files and commits of a session from its pod
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

#[derive(Debug, Args)]
pub(crate) struct KubeRbac {
    /// Namespace of the sessions
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = parse_label)]
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
