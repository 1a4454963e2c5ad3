//! Pods that the cluster ends.

use crate::pod_failure::PodFailure;
use crate::pod_object::PodObject;

impl PodObject {
    /// Returns why the cluster has ended the pod, or is ending it; `None` if it is not.
    pub fn ended_by_cluster(&self) -> Option<PodFailure> {
        let status = &self.status;
        if status.phase == "Failed" && !status.reason.is_empty() {
            return Some(failure(&status.reason, &status.message));
        }
        self.disruption().map(|condition| failure(&condition.reason, &condition.message))
    }
}

/// Returns the failure for a reason of a pod's status, or of its condition `DisruptionTarget`.
fn failure(reason: &str, message: &str) -> PodFailure {
    let (what, hint) = match reason {
        "Evicted" | "EvictionByEvictionAPI" => (
            "the pod was evicted",
            "start the session again; without a claim, files and commits that were not fetched or pushed are lost",
        ),
        "DeadlineExceeded" => {
            ("the pod's deadline has passed", "give it more time with --deadline")
        }
        "Preempting" | "Preempted" | "PreemptionByScheduler" => {
            ("the pod was preempted by one of higher priority", START_AGAIN)
        }
        "NodeLost"
        | "NodeShutdown"
        | "Shutdown"
        | "Terminated"
        | "DeletionByTaintManager"
        | "DeletionByPodGC" => ("the pod's node is lost", START_AGAIN),
        "TerminationByKubelet" => ("the pod's node terminated it", START_AGAIN),
        "NodeAffinity" | "UnexpectedAdmissionError" | "TopologyAffinityError" => {
            ("the node does not admit the pod", START_AGAIN)
        }
        _ if reason.starts_with("OutOf") => ("the node has no room for the pod", START_AGAIN),
        _ => ("the pod failed", "see: kubectl describe pod"),
    };
    let message = match message.is_empty() {
        true => format!("{what} ({reason})"),
        false => format!("{what} ({reason}): {message}"),
    };
    PodFailure { message, hint, log_of: None }
}

const START_AGAIN: &str = "start the session again";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ended(status: &Value) -> Option<String> {
        let pod: PodObject = serde_json::from_value(json!({"status": status})).unwrap();
        pod.ended_by_cluster().map(|it| format!("{}\n{}", it.message, it.hint))
    }

    #[test]
    fn reasons_of_a_failed_pod_are_named() {
        for (reason, part) in [
            ("Evicted", "was evicted (Evicted): low on memory"),
            ("DeadlineExceeded", "--deadline"),
            ("OutOfcpu", "no room"),
            ("Other", "(Other)"),
        ] {
            let status = json!({"phase": "Failed", "reason": reason, "message": "low on memory"});
            let text = ended(&status).unwrap();
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(ended(&json!({"phase": "Failed"})), None);
    }

    #[test]
    fn a_disruption_is_named() {
        let status = |reason: &str, status: &str| {
            let condition = json!({"type": "DisruptionTarget", "status": status, "reason": reason,
                "message": "m", "observedGeneration": 1, "lastProbeTime": null});
            json!({"phase": "Running", "conditions": [condition]})
        };
        for (reason, part) in [
            ("EvictionByEvictionAPI", "was evicted (EvictionByEvictionAPI): m"),
            ("PreemptionByScheduler", "higher priority"),
            ("DeletionByTaintManager", "node is lost"),
            ("DeletionByPodGC", "node is lost"),
            ("TerminationByKubelet", "node terminated it"),
        ] {
            let text = ended(&status(reason, "True")).unwrap();
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(ended(&status("EvictionByEvictionAPI", "False")), None);
    }
}
