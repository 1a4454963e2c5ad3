//! Checks of a cluster (`spec/cli.md#doctor`): kubectl, the API server, the namespace, and the user's rights.

mod objects;
mod probe;
mod rights;

use std::pin::Pin;
use std::time::Duration;

use aifo_config::Config;
use aifo_host::TrustedPrograms;
use aifo_types::{Finding, FindingStatus};

use self::probe::{Got, Probe};
use super::cluster::target;
use crate::{KubeContext, Kubectl};

/// A check of a cluster, with [`CHECK_TIMEOUT`].
struct ClusterCheck {
    name: &'static str,
    /// Whether its failure ends the checks: the others would fail for the same reason.
    is_required: bool,
    run: for<'a> fn(&'a Probe<'a>) -> FindingsFuture<'a>,
}

const CHECKS: &[ClusterCheck] = &[
    ClusterCheck { name: "cluster", is_required: true, run: |probe| Box::pin(version(probe)) },
    ClusterCheck {
        name: "cluster namespace",
        is_required: true,
        run: |probe| Box::pin(objects::namespace(probe)),
    },
    ClusterCheck {
        name: "rights",
        is_required: false,
        run: |probe| Box::pin(rights::rights(probe)),
    },
    ClusterCheck {
        name: "model keys",
        is_required: false,
        run: |probe| Box::pin(objects::model_keys(probe)),
    },
    ClusterCheck {
        name: "pull secrets",
        is_required: false,
        run: |probe| Box::pin(objects::pull_secrets(probe)),
    },
    ClusterCheck {
        name: "launcher image",
        is_required: false,
        run: |probe| Box::pin(objects::launcher_image(probe)),
    },
];

type FindingsFuture<'a> = Pin<Box<dyn Future<Output = Vec<Finding>> + 'a>>;

/// The time limit of one check. A request has 20 s; a login program of the kubeconfig has no limit of its own.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks the cluster of a configuration by requests of the user's kubectl.
pub async fn check(config: &Config, programs: &TrustedPrograms) -> Vec<Finding> {
    let found = Kubectl::find(programs, target(config));
    let kubectl = match tokio::time::timeout(CHECK_TIMEOUT, found).await {
        Ok(Ok(kubectl)) => kubectl,
        Ok(Err(error)) => return vec![Finding::failure("kubectl", &error, "run: kubectl version")],
        Err(_) => return vec![late("kubectl")],
    };
    let text = format!("{}, {}", kubectl.version(), kubectl.file().display());
    let mut findings = vec![Finding::ok("kubectl", text)];
    let (kube_context, finding) = kube_context(&kubectl).await;
    findings.push(finding);
    let probe = Probe { config, kubectl, kube_context };
    for check in CHECKS {
        let found = tokio::time::timeout(CHECK_TIMEOUT, (check.run)(&probe)).await;
        let found = found.unwrap_or_else(|_| vec![late(check.name)]);
        let is_last =
            check.is_required && found.iter().any(|finding| finding.status == FindingStatus::Fail);
        findings.extend(found);
        if is_last {
            break;
        }
    }
    findings
}

/// Reads the context of the kubeconfig. In a pod there may be none, so its absence is no failure.
async fn kube_context(kubectl: &Kubectl) -> (KubeContext, Finding) {
    let absent = || {
        let namespace = kubectl.target().namespace.clone().unwrap_or_else(|| "default".to_owned());
        KubeContext { namespace, ..KubeContext::default() }
    };
    match tokio::time::timeout(CHECK_TIMEOUT, kubectl.context()).await {
        Ok(Ok(context)) => {
            let finding = Finding::ok("context", format!("{}, {}", context.name, context.server));
            (context, finding)
        }
        Ok(Err(error)) => {
            let error = error.to_string();
            let text = error.lines().next().unwrap_or_default();
            let fix = "list the contexts with: kubectl config get-contexts; then --context NAME";
            (absent(), Finding::warn("context", text, fix))
        }
        Err(_) => (absent(), late("context")),
    }
}

fn late(check: &str) -> Finding {
    let text = format!("no answer within {} s", CHECK_TIMEOUT.as_secs());
    Finding::fail(check, text, "check the connection to the cluster: kubectl cluster-info")
}

async fn version(probe: &Probe<'_>) -> Vec<Finding> {
    let version = |text: &str| {
        let document: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(document.get("gitVersion")?.as_str()?.to_owned())
    };
    vec![match probe.get("cluster", &["--raw=/version"]).await {
        Ok(Got::Text(text)) => match version(&text) {
            Some(version) => Finding::ok("cluster", format!("Kubernetes {version}")),
            None => {
                let fix = "check the server of the context: kubectl cluster-info";
                Finding::fail("cluster", "the server's answer has no version of Kubernetes", fix)
            }
        },
        Ok(Got::Forbidden) => Finding::ok("cluster", "answers; your role cannot read its version"),
        Ok(Got::Absent) => {
            let fix = "check the server of the context: kubectl cluster-info";
            Finding::fail("cluster", "the server is no API server of Kubernetes", fix)
        }
        Err(finding) => finding,
    }]
}
