//! A cluster, its context, and its objects.

use std::net::IpAddr;

use aifo_launch::{FailureCause, Kubectl, KubectlError};

use crate::doctor::CheckContext;
use crate::doctor::report::Finding;
use crate::kube::host;

/// A cluster, and the namespace of its sessions.
pub(super) struct Probe<'a> {
    pub(super) context: &'a CheckContext,
    pub(super) kubectl: Kubectl,
    /// The URL of the API server; empty if the kubeconfig has none.
    server: String,
    pub(super) namespace: String,
}

/// The fields of the kubeconfig that a session uses.
const CONTEXT_FIELDS: &str = "--output=jsonpath={.contexts[0].context.namespace} \
    {.clusters[0].cluster.server} {.current-context}";

impl<'a> Probe<'a> {
    pub(super) fn of(context: &'a CheckContext, kubectl: Kubectl) -> Self {
        Probe { context, kubectl, server: String::new(), namespace: "default".to_owned() }
    }

    /// Reads the context of the kubeconfig. In a pod there may be none, so its absence is no failure.
    pub(super) async fn read_context(&mut self) -> Finding {
        let output = self.kubectl.output(&["config", "view", "--minify", CONTEXT_FIELDS], b"");
        let (text, error) = match output.await {
            Ok(output) => (String::from_utf8_lossy(&output).into_owned(), None),
            Err(error) => (String::new(), Some(error)),
        };
        let mut words = text.trim_end().splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (namespace, server, name) = (word(), word(), word());
        let namespace = Some(namespace).filter(|name| !name.is_empty());
        if let Some(namespace) = self.kubectl.target().namespace.clone().or(namespace) {
            self.namespace = namespace;
        }
        self.server = server;
        match error {
            None => Finding::ok("context", format!("{name}, {}", self.server)),
            Some(error) => {
                let error = error.to_string();
                let text = error.lines().next().unwrap_or_default();
                let fix =
                    "list the contexts with: kubectl config get-contexts; then --context NAME";
                Finding::warn("context", text, fix)
            }
        }
    }

    /// Whether the cluster is on this machine, as that of kind is.
    pub(super) fn is_local(&self) -> bool {
        host(&self.server).is_some_and(|host| match host.parse::<IpAddr>() {
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
