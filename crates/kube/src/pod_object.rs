//! A session's pod, as the API server reports it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::security::{AGENT_LABEL, SESSION_LABEL};

/// A pod, as far as sessions need it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodObject {
    metadata: Metadata,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    labels: BTreeMap<String, String>,
    creation_timestamp: String,
    deletion_timestamp: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) node_name: String,
    pub(crate) containers: Vec<Named>,
    pub(crate) init_containers: Vec<Named>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) phase: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) container_statuses: Vec<ContainerStatus>,
    pub(crate) init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) waiting: Option<Waiting>,
    pub(crate) running: Option<Running>,
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Running {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Waiting {
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i64,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The launcher container.
pub(crate) const LAUNCHER: &str = "aifo";
/// The init container that waits for the workspace.
pub(crate) const UPLOAD: &str = "upload";
/// The init container that clones a repository.
pub(crate) const CLONE: &str = "clone";

impl PodObject {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Returns the session id; `None` for a pod of another program.
    pub fn session(&self) -> Option<&str> {
        self.metadata.labels.get(SESSION_LABEL).map(String::as_str)
    }

    /// Returns the agent name.
    pub fn agent(&self) -> &str {
        self.metadata.labels.get(AGENT_LABEL).map(String::as_str).unwrap_or_default()
    }

    /// Returns the node, once it is scheduled.
    pub fn node(&self) -> &str {
        &self.spec.node_name
    }

    /// Returns when it was created, as RFC 3339.
    pub fn created(&self) -> &str {
        &self.metadata.creation_timestamp
    }

    /// Returns whether it is being deleted.
    pub fn is_deleted(&self) -> bool {
        !self.metadata.deletion_timestamp.is_empty()
    }

    /// Returns the toolchains of its containers.
    pub fn kinds(&self) -> Vec<&str> {
        let names = self.spec.containers.iter().map(|container| container.name.as_str());
        names.filter(|name| ![LAUNCHER, "agent"].contains(name)).collect()
    }

    /// Returns whether its workspace is a clone.
    pub fn has_clone(&self) -> bool {
        self.spec.init_containers.iter().any(|container| container.name == CLONE)
    }

    /// Returns whether its workspace is an upload.
    pub fn has_upload(&self) -> bool {
        self.spec.init_containers.iter().any(|container| container.name == UPLOAD)
    }

    /// Returns whether its agent has ended, but `aifo` runs: files or commits wait for a fetch, or the end of the terminal
    /// for a client.
    pub fn waits_after_end(&self) -> bool {
        self.container("agent").is_some_and(|it| it.terminated.is_some())
            && self.launcher().is_some_and(|it| it.running.is_some())
    }

    /// Returns whether its init container waits for the workspace files.
    pub fn waits_for_upload(&self) -> bool {
        let mut containers = self.status.init_container_statuses.iter();
        containers.any(|it| it.name == UPLOAD && it.state.running.is_some())
    }

    /// Returns the condition `DisruptionTarget` (since 1.26) of a pod that the cluster ends.
    pub(crate) fn disruption(&self) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|it| it.r#type == "DisruptionTarget" && it.status == "True")
    }

    /// Returns the state of the launcher container.
    pub(crate) fn launcher(&self) -> Option<&ContainerState> {
        self.container(LAUNCHER)
    }

    fn container(&self, name: &str) -> Option<&ContainerState> {
        let mut containers = self.status.container_statuses.iter();
        containers.find(|it| it.name == name).map(|it| &it.state)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A pod of a session with this status.
    pub(crate) fn pod(status: &Value) -> PodObject {
        let containers = json!([{"name": "aifo"}, {"name": "agent"}, {"name": "rust"}]);
        let labels = json!({"dev.aifo.session": "5d0c", "dev.aifo.agent": "codex"});
        let object = json!({
            "metadata": {"name": "aifo-5d0c", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": containers, "nodeName": "n1"},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pod_waits_after_its_agent() {
        let pod = |agent: &str, aifo: &str, init: &str| -> PodObject {
            let status = |name: &str, state: &str| {
                format!(r#"{{"name":"{name}","state":{{"{state}":{{}}}}}}"#)
            };
            let containers = [status("aifo", aifo), status("agent", agent)].join(",");
            let spec =
                format!(r#"{{"initContainers":[{{"name":"install"}},{{"name":"{init}"}}]}}"#);
            let text =
                format!(r#"{{"spec":{spec},"status":{{"containerStatuses":[{containers}]}}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        assert!(pod("terminated", "running", "clone").waits_after_end());
        assert!(!pod("running", "running", "clone").waits_after_end());
        assert!(!pod("terminated", "terminated", "clone").waits_after_end());
        let kinds = |init: &str| {
            let pod = pod("running", "running", init);
            (pod.has_clone(), pod.has_upload())
        };
        assert_eq!((kinds("clone"), kinds("upload")), ((true, false), (false, true)));
        assert_eq!(kinds("other"), (false, false));
    }

    #[test]
    fn a_pod_is_of_a_session() {
        let pod = pod(&json!({}));
        assert_eq!((pod.name(), pod.session(), pod.agent()), ("aifo-5d0c", Some("5d0c"), "codex"));
        assert_eq!((pod.kinds(), pod.node(), pod.is_deleted()), (vec!["rust"], "n1", false));
        assert_eq!(PodObject::default().session(), None);
    }
}
