//! The state of a session's pod and its events, as the API server reports them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::security::{AGENT_LABEL, SESSION_LABEL};

/// A pod, as far as sessions need it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodObject {
    metadata: Metadata,
    spec: Spec,
    status: Status,
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
struct Spec {
    node_name: String,
    containers: Vec<Named>,
    init_containers: Vec<Named>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: String,
    image: String,
    state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Reason>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Running {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Reason {
    reason: String,
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i64,
    reason: String,
    message: String,
}

/// The state of a session's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It starts: the current step.
    Starting(String),
    /// It does not start now, for a reason that may pass.
    Delayed(String),
    /// All containers run, or have run.
    Running,
    /// The container `aifo` has ended with this exit code, the agent's.
    Ended(u8),
    /// It cannot start, or was ended from outside.
    Failed(PodFailure),
}

/// Why a pod failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    /// What failed, and why.
    pub message: String,
    /// The remedy.
    pub hint: &'static str,
    /// The container whose log has the cause.
    pub log_of: Option<String>,
}

/// The container of the launcher.
const LAUNCHER: &str = "aifo";
/// The init container that waits for the workspace.
const UPLOAD: &str = "upload";
/// The init container that clones a repository.
const CLONE: &str = "clone";

impl PodObject {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Returns the session's id; `None` for a pod of another program.
    pub fn session(&self) -> Option<&str> {
        self.metadata.labels.get(SESSION_LABEL).map(String::as_str)
    }

    /// Returns the agent's name.
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
        let container =
            |name: &str| self.status.container_statuses.iter().find(|it| it.name == name);
        container("agent").is_some_and(|it| it.state.terminated.is_some())
            && container(LAUNCHER).is_some_and(|it| it.state.running.is_some())
    }

    /// Returns whether its init container waits for the files of the workspace.
    pub fn waits_for_upload(&self) -> bool {
        let mut containers = self.status.init_container_statuses.iter();
        containers.any(|it| it.name == UPLOAD && it.state.running.is_some())
    }

    /// Returns its state.
    pub fn state(&self) -> PodState {
        let status = &self.status;
        if status.phase == "Failed" && !status.reason.is_empty() {
            return PodState::Failed(ended_from_outside(&status.reason, &status.message));
        }
        let launcher = status.container_statuses.iter().find(|it| it.name == LAUNCHER);
        if let Some(ended) = launcher.and_then(|it| it.state.terminated.as_ref()) {
            return match ended.reason.as_str() {
                "OOMKilled" => PodState::Failed(PodFailure {
                    message:
                        "the container 'aifo' was killed: it needed more memory than its limit"
                            .to_owned(),
                    hint: "start the session again",
                    log_of: None,
                }),
                _ if !START_ERRORS.contains(&ended.reason.as_str()) => {
                    PodState::Ended(u8::try_from(ended.exit_code).unwrap_or(u8::MAX))
                }
                _ => PodState::Failed(not_started(LAUNCHER, &ended.message)),
            };
        }
        if let Some(failure) = self.failed_container() {
            return PodState::Failed(failure);
        }
        let all = || status.init_container_statuses.iter().chain(&status.container_statuses);
        let waiting = || all().filter_map(|it| Some((it, it.state.waiting.as_ref()?)));
        let failed = waiting().find_map(|(container, reason)| final_failure(container, reason));
        if let Some(failure) = failed {
            return PodState::Failed(failure);
        }
        let scheduled = status.conditions.iter().find(|it| it.r#type == "PodScheduled");
        if let Some(condition) = scheduled.filter(|it| it.status == "False") {
            return match condition.message.contains("persistentvolumeclaim")
                && condition.message.contains("not found")
            {
                true => PodState::Failed(PodFailure {
                    message: format!("the workspace does not exist: {}", condition.message),
                    hint: "name a persistent volume claim of the namespace with --pvc",
                    log_of: None,
                }),
                false => PodState::Delayed(format!("not scheduled: {}", condition.message)),
            };
        }
        let delayed = waiting().find(|(_, it)| PULL_ERRORS.contains(&it.reason.as_str()));
        if let Some((container, reason)) = delayed {
            let (image, message) = (&container.image, &reason.message);
            return PodState::Delayed(format!("cannot pull image '{image}': {message}"));
        }
        let is_up = status.container_statuses.len() >= self.spec.containers.len().max(1)
            && status.container_statuses.iter().all(|it| it.state.waiting.is_none())
            && launcher.is_some_and(|it| it.state.running.is_some());
        match (is_up, status.init_container_statuses.iter().find(|it| it.state.running.is_some())) {
            (true, _) => PodState::Running,
            (_, Some(init)) => PodState::Starting(init_step(&init.name)),
            _ if self.spec.node_name.is_empty() => PodState::Starting("waiting for a node".into()),
            _ => PodState::Starting("creating containers".to_owned()),
        }
    }

    /// Returns the failure of a container that has ended, but not because the session did.
    fn failed_container(&self) -> Option<PodFailure> {
        let status = &self.status;
        let terminated = |it: &ContainerStatus| it.state.terminated.clone();
        let init = status.init_container_statuses.iter();
        let mut init = init.filter_map(|it| Some((it, terminated(it)?)));
        if let Some((container, ended)) = init.find(|(_, ended)| ended.exit_code != 0) {
            let (name, code) = (&container.name, ended.exit_code);
            if START_ERRORS.contains(&ended.reason.as_str()) {
                return Some(not_started(name, &ended.message));
            }
            return Some(PodFailure {
                message: format!("the container '{name}' failed with exit code {code}"),
                hint: match name.as_str() {
                    "clone" => "check the URL, the branch and --git-secret",
                    UPLOAD => "start the session again",
                    _ => "check the image of aifo: --launcher-image",
                },
                log_of: Some(name.clone()),
            });
        }
        let containers = status.container_statuses.iter();
        let mut ended = containers.filter_map(|it| Some((it, terminated(it)?)));
        let (container, ended) =
            ended.find(|(_, it)| START_ERRORS.contains(&it.reason.as_str()))?;
        Some(not_started(&container.name, &ended.message))
    }
}

/// Reasons of containers whose process could not be started.
const START_ERRORS: [&str; 2] = ["StartError", "ContainerCannotRun"];
const PULL_ERRORS: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

fn not_started(container: &str, message: &str) -> PodFailure {
    PodFailure {
        message: format!("the container '{container}' cannot run: {message}"),
        hint: "check its image: --image, --toolchain-image, --launcher-image",
        log_of: None,
    }
}

fn init_step(name: &str) -> String {
    match name {
        "clone" => "cloning the repository".to_owned(),
        "install" => "installing the shim".to_owned(),
        UPLOAD => "uploading the workspace".to_owned(),
        name => format!("running the container '{name}'"),
    }
}

fn ended_from_outside(reason: &str, message: &str) -> PodFailure {
    let (what, hint) = match reason {
        "Evicted" => (
            "the pod was evicted",
            "start the session again; without a claim, files and commits that were not fetched or pushed are lost",
        ),
        "DeadlineExceeded" => ("the pod's deadline is over", "give it more time with --deadline"),
        "Preempting" | "Preempted" => {
            ("the pod gave way to one of higher priority", "start the session again")
        }
        "NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated" => {
            ("the pod's node is lost", "start the session again")
        }
        _ => ("the pod failed", "see: kubectl describe pod"),
    };
    let message = match message.is_empty() {
        true => format!("{what} ({reason})"),
        false => format!("{what} ({reason}): {message}"),
    };
    PodFailure { message, hint, log_of: None }
}

/// Returns the failure of a container that waits for something that does not come by itself.
fn final_failure(container: &ContainerStatus, waiting: &Reason) -> Option<PodFailure> {
    let ContainerStatus { name, image, .. } = container;
    let Reason { reason, message } = waiting;
    let failure = |message: String, hint| Some(PodFailure { message, hint, log_of: None });
    match reason.as_str() {
        "ErrImagePull" | "ImagePullBackOff" if is_missing(message) => failure(
            format!("the cluster cannot pull image '{image}' of container '{name}': {message}"),
            "push it to a registry of the cluster, name another with --image, --toolchain-image or \
             --launcher-image, or name the registry's secret with --image-pull-secret",
        ),
        "InvalidImageName" | "ErrImageNeverPull" => failure(
            format!("the image '{image}' of container '{name}' cannot be used: {message}"),
            "name another with --image, --toolchain-image or --launcher-image",
        ),
        "CreateContainerConfigError" if message.contains("secret") => failure(
            format!("the container '{name}' cannot be created: {message}"),
            "create the secret, or name another with --keys-secret or --git-secret",
        ),
        "CreateContainerConfigError" => failure(
            format!("the container '{name}' cannot be created: {message}"),
            "see: kubectl describe pod",
        ),
        "CreateContainerError" | "RunContainerError" => {
            failure(not_started(name, message).message, "check its image")
        }
        _ => None,
    }
}

/// Returns whether a registry has answered that it does not give the image.
fn is_missing(message: &str) -> bool {
    let message = message.to_lowercase();
    let parts = ["not found", "manifest unknown", "does not exist", "denied", "unauthorized"];
    let further = ["authorization failed", "authentication required", "no match for platform"];
    parts.iter().chain(&further).any(|part| message.contains(part))
}

/// An event of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventObject {
    reason: String,
    message: String,
}

impl EventObject {
    /// Returns the step of the start that it reports, if it does.
    pub fn step(&self) -> Option<String> {
        let message = &self.message;
        Some(match self.reason.as_str() {
            "Pulling" => message.replacen("Pulling", "pulling", 1),
            "FailedMount" | "FailedAttachVolume" => format!("waiting for a volume: {message}"),
            "FailedCreatePodSandBox" | "NetworkNotReady" => {
                format!("waiting for the node: {message}")
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(status: &Value) -> PodObject {
        let containers = json!([{"name": "aifo"}, {"name": "agent"}, {"name": "rust"}]);
        let labels = json!({"dev.aifo.session": "5d0c", "dev.aifo.agent": "codex"});
        let object = json!({
            "metadata": {"name": "aifo-5d0c", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": containers, "nodeName": "n1"},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn containers(states: [Value; 3]) -> Value {
        let named = ["aifo", "agent", "rust"].into_iter().zip(states);
        named.map(|(name, state)| json!({"name": name, "image": "i", "state": state})).collect()
    }

    fn running() -> Value {
        json!({"running": {"startedAt": "x"}})
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"waiting": {"reason": reason, "message": message}})
    }

    fn state(states: [Value; 3]) -> PodState {
        pod(&json!({"phase": "Pending", "containerStatuses": containers(states)})).state()
    }

    fn failure(state: PodState) -> String {
        match state {
            PodState::Failed(failure) => format!("{}\n{}", failure.message, failure.hint),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_starts_runs_and_ends() {
        let creating = || waiting("ContainerCreating", "");
        let starting = PodState::Starting("creating containers".to_owned());
        assert_eq!(state([running(), creating(), running()]), starting);
        assert_eq!(state([running(), running(), running()]), PodState::Running);
        let ended = |code: i64| json!({"terminated": {"exitCode": code, "reason": "Error"}});
        assert_eq!(state([running(), running(), ended(1)]), PodState::Running, "aifo reports it");
        assert_eq!(state([ended(7), running(), ended(0)]), PodState::Ended(7));
        let clone = json!([{"name": "clone", "state": running()}]);
        let initializing = || waiting("PodInitializing", "");
        let status = json!({
            "phase": "Pending",
            "initContainerStatuses": clone,
            "containerStatuses": containers([initializing(), initializing(), initializing()]),
        });
        assert_eq!(pod(&status).state(), PodState::Starting("cloning the repository".to_owned()));
    }

    #[test]
    fn delays_have_the_reason_of_the_scheduler_and_the_registry() {
        let message = "0/3 nodes are available: 3 Insufficient memory.";
        let condition = |message| {
            let condition = json!({"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": message});
            pod(&json!({"phase": "Pending", "conditions": [condition]})).state()
        };
        assert_eq!(condition(message), PodState::Delayed(format!("not scheduled: {message}")));
        let missing = condition("persistentvolumeclaim \"p\" not found");
        assert!(failure(missing).contains("--pvc"));
        let timeout = waiting("ErrImagePull", "dial tcp: i/o timeout");
        let delayed = PodState::Delayed("cannot pull image 'i': dial tcp: i/o timeout".to_owned());
        assert_eq!(state([timeout, running(), running()]), delayed);
    }

    #[test]
    fn failures_name_their_cause_and_remedy() {
        for (reason, message, part) in [
            ("ErrImagePull", "rpc error: x: not found", "--launcher-image"),
            ("ImagePullBackOff", "pull access denied", "--image-pull-secret"),
            ("InvalidImageName", "x", "--image"),
            ("CreateContainerConfigError", "secret \"k\" not found", "--keys-secret"),
            ("CreateContainerConfigError", "image will run as root", "describe"),
            ("RunContainerError", "exec: no such file", "cannot run: exec: no such file"),
        ] {
            let text = failure(state([running(), waiting(reason, message), running()]));
            assert!(text.contains(part) && text.contains(message), "{reason}: {text}");
        }
        for (reason, part) in [
            ("Evicted", "was evicted (Evicted): low on memory"),
            ("DeadlineExceeded", "--deadline"),
            ("Other", "(Other)"),
        ] {
            let status = json!({"phase": "Failed", "reason": reason, "message": "low on memory"});
            let text = failure(pod(&status).state());
            assert!(text.contains(part), "{text}");
        }
        let clone = json!([{"name": "clone", "state": {"terminated": {"exitCode": 128}}}]);
        let status = json!({"phase": "Pending", "initContainerStatuses": clone});
        assert!(failure(pod(&status).state()).contains("'clone' failed with exit code 128"));
        let refused =
            json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no x"}});
        assert!(failure(state([running(), running(), refused])).contains("no x"));
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

    #[test]
    fn events_of_a_start_are_steps() {
        let event = |reason: &str, message: &str| {
            let event: EventObject =
                serde_json::from_value(json!({"reason": reason, "message": message})).unwrap();
            event.step()
        };
        assert_eq!(event("Pulling", "Pulling image \"x\"").unwrap(), "pulling image \"x\"");
        assert_eq!(event("Started", "Started container x"), None);
        assert!(event("FailedMount", "no").unwrap().contains("volume: no"));
    }
}
