//! The state of a session's pod.

use crate::pod_failure::{PodFailure, not_started};
use crate::pod_object::{ContainerStatus, LAUNCHER, PodObject, Terminated, UPLOAD};
use crate::waiting::{final_failure, pull_delay};

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

impl PodObject {
    /// Returns its state.
    pub fn state(&self) -> PodState {
        let status = &self.status;
        let has_failed = status.phase == "Failed";
        let ended = self.launcher().and_then(|it| it.terminated.as_ref());
        let by_cluster = self.ended_by_cluster().filter(|_| {
            // A disruption is announced before the containers end.
            has_failed || ended.is_some_and(|it| it.exit_code != 0)
        });
        if let Some(failure) = by_cluster {
            return PodState::Failed(failure);
        }
        if let Some(ended) = ended {
            return state_after(ended);
        }
        if let Some(failure) = self.failed_container() {
            return PodState::Failed(failure);
        }
        if has_failed {
            return PodState::Failed(PodFailure {
                message: "the pod failed, and its node has not reported why".to_owned(),
                hint: "see: kubectl describe pod",
                log_of: None,
            });
        }
        self.state_of_start()
    }

    /// Returns the state of a pod of which nothing has failed or ended.
    fn state_of_start(&self) -> PodState {
        let status = &self.status;
        let all = || status.init_container_statuses.iter().chain(&status.container_statuses);
        let waiting = || all().filter_map(|it| Some((it, it.state.waiting.as_ref()?)));
        let failed = waiting().find_map(|(container, reason)| final_failure(container, reason));
        if let Some(failure) = failed {
            return PodState::Failed(failure);
        }
        let scheduled = status.conditions.iter().find(|it| it.r#type == "PodScheduled");
        if let Some(condition) = scheduled.filter(|it| it.status == "False") {
            return unscheduled(&condition.message);
        }
        let delay = waiting().find_map(|(container, reason)| pull_delay(container, reason));
        if let Some(delay) = delay {
            return PodState::Delayed(delay);
        }
        let is_up = status.container_statuses.len() >= self.spec.containers.len().max(1)
            && status.container_statuses.iter().all(|it| it.state.waiting.is_none())
            && self.launcher().is_some_and(|it| it.running.is_some());
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
            return Some(init_failure(&container.name, &ended));
        }
        let containers = status.container_statuses.iter();
        let mut ended = containers.filter_map(|it| Some((it, terminated(it)?)));
        let (container, ended) =
            ended.find(|(_, it)| START_ERRORS.contains(&it.reason.as_str()))?;
        Some(not_started(&container.name, &ended.message))
    }
}

/// Returns the state after the end of the launcher container.
fn state_after(ended: &Terminated) -> PodState {
    let failed =
        |message: String, hint| PodState::Failed(PodFailure { message, hint, log_of: None });
    match ended.reason.as_str() {
        "OOMKilled" => failed(
            "the container 'aifo' was killed: it needed more memory than its limit".to_owned(),
            "start the session again",
        ),
        UNKNOWN => failed(unknown_end(LAUNCHER, &ended.message), "start the session again"),
        reason if START_ERRORS.contains(&reason) => {
            PodState::Failed(not_started(LAUNCHER, &ended.message))
        }
        _ => PodState::Ended(u8::try_from(ended.exit_code).unwrap_or(u8::MAX)),
    }
}

fn unscheduled(message: &str) -> PodState {
    match message.contains("persistentvolumeclaim") && message.contains("not found") {
        true => PodState::Failed(PodFailure {
            message: format!("the workspace does not exist: {message}"),
            hint: "name a persistent volume claim of the namespace with --pvc",
            log_of: None,
        }),
        false => PodState::Delayed(format!("not scheduled: {message}")),
    }
}

/// Returns the failure of an init container with an exit code.
fn init_failure(name: &str, ended: &Terminated) -> PodFailure {
    let failure = |message: String, hint, log_of| PodFailure { message, hint, log_of };
    match ended.reason.as_str() {
        reason if START_ERRORS.contains(&reason) => not_started(name, &ended.message),
        UNKNOWN => failure(unknown_end(name, &ended.message), "start the session again", None),
        "OOMKilled" => failure(
            format!("the container '{name}' was killed: it needed more memory than its limit"),
            "give it more with --memory",
            None,
        ),
        _ => failure(
            format!("the container '{name}' failed with exit code {}", ended.exit_code),
            match name {
                "clone" => "check the URL, the branch and --git-secret",
                UPLOAD => "start the session again",
                _ => "check the image of aifo: --launcher-image",
            },
            Some(name.to_owned()),
        ),
    }
}

/// Reasons of containers whose process could not be started.
const START_ERRORS: [&str; 2] = ["StartError", "ContainerCannotRun"];
/// The reason of a container whose end the node has not seen. Its exit code is not that of a process.
const UNKNOWN: &str = "ContainerStatusUnknown";

fn unknown_end(container: &str, message: &str) -> String {
    format!("the end of the container '{container}' is unknown: {message}")
}

fn init_step(name: &str) -> String {
    match name {
        "clone" => "cloning the repository".to_owned(),
        "install" => "installing the shim".to_owned(),
        UPLOAD => "uploading the workspace".to_owned(),
        name => format!("running the container '{name}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_object::tests::pod;
    use serde_json::{Value, json};

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
        let missing = waiting("ErrImagePull", "rpc error: x: not found");
        assert!(failure(state([running(), missing, running()])).contains("x: not found"));
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
        assert!(failure(pod(&evicted).state()).contains("low on memory"));
        let clone = json!([{"name": "clone", "state": {"terminated": {"exitCode": 128}}}]);
        let status = json!({"phase": "Pending", "initContainerStatuses": clone});
        assert!(failure(pod(&status).state()).contains("'clone' failed with exit code 128"));
        let refused =
            json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no x"}});
        assert!(failure(state([running(), running(), refused])).contains("no x"));
    }

    #[test]
    fn an_end_that_the_node_has_not_seen_has_no_exit_code() {
        let unknown = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
            "message": "could not be located", "startedAt": null, "finishedAt": null}});
        let text = failure(state([unknown.clone(), running(), running()]));
        assert!(text.contains("'aifo' is unknown: could not be located"), "{text}");
        let clone = json!([{"name": "clone", "state": unknown}]);
        let status = json!({"phase": "Pending", "initContainerStatuses": clone});
        assert!(failure(pod(&status).state()).contains("'clone' is unknown"));
        let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let clone = json!([{"name": "clone", "state": killed}]);
        let status = json!({"phase": "Pending", "initContainerStatuses": clone});
        assert!(failure(pod(&status).state()).contains("--memory"));
        // The garbage collection of pods changes only the phase.
        let status = json!({"phase": "Failed",
            "containerStatuses": containers([running(), running(), running()])});
        assert!(failure(pod(&status).state()).contains("has not reported why"));
    }

    #[test]
    fn a_disruption_explains_an_end_with_an_error() {
        let with = |state: Value| {
            let condition = json!({"type": "DisruptionTarget", "status": "True",
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"});
            let states = containers([state, running(), running()]);
            let status = json!({"phase": "Running", "conditions": [condition],
                "containerStatuses": states});
            pod(&status).state()
        };
        assert_eq!(with(running()), PodState::Running, "it has time to end");
        assert!(failure(with(json!({"terminated": {"exitCode": 143}}))).contains("evicted"));
        assert_eq!(with(json!({"terminated": {"exitCode": 0}})), PodState::Ended(0));
    }

    #[test]
    fn a_status_of_a_current_cluster_is_read() {
        let container = |name: &str| {
            json!({"name": name, "image": "i", "imageID": "sha256:1", "ready": true, "restartCount": 0,
                "started": true, "lastState": {}, "state": {"running": {"startedAt": "x"}},
                "allocatedResources": {"memory": "32Mi"}, "resources": {"limits": {"memory": "1Gi"}},
                "user": {"linux": {"uid": 1000, "gid": 1000, "supplementalGroups": [1000]}},
                "volumeMounts": [{"name": "v", "mountPath": "/tmp", "recursiveReadOnly": "Disabled"}]})
        };
        let condition = |name: &str| {
            json!({"type": name, "status": "True", "observedGeneration": 1, "lastProbeTime": null,
                "lastTransitionTime": "x"})
        };
        let status = json!({
            "phase": "Running", "observedGeneration": 1, "qosClass": "Burstable", "hostIPs": [{"ip": "10.0.0.1"}],
            "conditions": [condition("PodReadyToStartContainers"), condition("PodScheduled")],
            "initContainerStatuses": [{"name": "proxy", "started": true, "state": {"running": {}}}],
            "containerStatuses": [container("aifo"), container("agent"), container("rust")],
        });
        assert_eq!(pod(&status).state(), PodState::Running, "also beside a sidecar of the cluster");
    }
}
