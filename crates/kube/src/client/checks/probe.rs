//! A cluster, its context, and its objects.

use std::net::IpAddr;

use aifo_config::Config;
use aifo_types::Finding;

use crate::{FailureCause, KubeContext, Kubectl, KubectlError};

/// A cluster, and the namespace of its sessions.
pub(super) struct Probe<'a> {
    pub(super) config: &'a Config,
    pub(super) kubectl: Kubectl,
    /// That of the kubeconfig; in a pod there may be none.
    pub(super) kube_context: KubeContext,
}

impl<'a> Probe<'a> {
    /// Whether the cluster is on this machine, as that of kind is.
    pub(super) fn is_local(&self) -> bool {
        self.kube_context.server_host().is_some_and(|host| match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || address.is_unspecified(),
            Err(_) => host == "localhost",
        })
    }

    /// Returns the output of a `get`. `Err` has the finding.
    pub(super) async fn get(&self, check: &str, args: &[&str]) -> Result<Got, Finding> {
        let args = [&["get"], args].concat();
        match self.kubectl.output(&args, b"").await {
            Ok(output) => Ok(Got::Text(String::from_utf8_lossy(&output).into_owned())),
            Err(error) if error.cause() == Some(FailureCause::Forbidden) => Ok(Got::Forbidden),
            Err(error) if error.cause() == Some(FailureCause::NotFound) => Ok(Got::Absent),
            Err(error) => Err(failure(check, &error)),
        }
    }
}

/// An object of the cluster.
pub(super) enum Got {
    Text(String),
    /// The user's role does not permit it.
    Forbidden,
    Absent,
}

/// The finding of a request that failed.
pub(super) fn failure(check: &str, error: &KubectlError) -> Finding {
    Finding::failure(check, error, "try: kubectl get pods")
}
