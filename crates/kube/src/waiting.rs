//! Containers that wait: for an image, or because the node cannot create them.

use crate::pod_failure::{PodFailure, not_started};
use crate::pod_object::{ContainerStatus, Waiting};

/// Returns why an image cannot be pulled now, for a reason that may pass.
pub(crate) fn pull_delay(container: &ContainerStatus, waiting: &Waiting) -> Option<String> {
    let reasons = ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"];
    let (image, message) = (&container.image, &waiting.message);
    reasons
        .contains(&waiting.reason.as_str())
        .then(|| format!("cannot pull image '{image}': {message}"))
}

/// Returns the failure of a container that waits for something that does not come by itself.
pub(crate) fn final_failure(container: &ContainerStatus, waiting: &Waiting) -> Option<PodFailure> {
    let ContainerStatus { name, image, .. } = container;
    let Waiting { reason, message } = waiting;
    let failure = |message: String, hint| Some(PodFailure { message, hint, log_of: None });
    let lower = message.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    match reason.as_str() {
        "ErrImagePull" | "ImagePullBackOff" | "ImageInspectError" if has(&MISSING) => failure(
            format!("the cluster cannot pull image '{image}' of container '{name}': {message}"),
            "push it to a registry of the cluster, name another with --image, --toolchain-image or \
             --launcher-image, or name the registry's secret with --image-pull-secret",
        ),
        "ErrImagePull" | "ImagePullBackOff" | "ImageInspectError" if has(&REFUSED) => failure(
            format!("the registry refuses image '{image}' of container '{name}': {message}"),
            "pass the secret with the registry's login by --image-pull-secret; if you did, check the login in it",
        ),
        "InvalidImageName" | "ErrImageNeverPull" | "SignatureValidationFailed" => failure(
            format!("the image '{image}' of container '{name}' cannot be used: {message}"),
            "name another with --image, --toolchain-image or --launcher-image",
        ),
        // The node is slow; it tries again.
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError"
            if has(&TRANSIENT) =>
        {
            None
        }
        "CreateContainerConfigError" if lower.contains("secret") => failure(
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

/// Parts of messages, in lower case, of a node that tries again: its cache of secrets is not filled, or its
/// container runtime is slow.
const TRANSIENT: [&str; 4] = [
    "timed out waiting for the condition",
    "context deadline exceeded",
    "failed to reserve container name",
    "name is reserved for",
];

/// Parts of messages of containerd and CRI-O, in lower case, if the registry does not accept the login.
const REFUSED: [&str; 4] =
    ["unauthorized", "403 forbidden", "authorization failed", "authentication required"];

/// Parts of their messages if there is no such image. Some registries also answer so without a login.
const MISSING: [&str; 7] = [
    "not found",
    "manifest unknown",
    "does not exist",
    "denied",
    "no match for platform",
    "no image found in image index",
    // CRI-O asks no registry for an image without one.
    "short name mode is enforcing",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(reason: &str, message: &str) -> (ContainerStatus, Waiting) {
        let status = serde_json::from_value(json!({"name": "rust", "image": "i"})).unwrap();
        let reason = json!({"reason": reason, "message": message});
        (status, serde_json::from_value(reason).unwrap())
    }

    #[test]
    fn failures_name_their_cause_and_remedy() {
        for (reason, message, part) in [
            (
                "ErrImagePull",
                "rpc error: code = NotFound desc = failed to pull and unpack image \"i\": failed to \
                 resolve reference \"i\": i: not found",
                "--launcher-image",
            ),
            (
                "ImagePullBackOff",
                "pull access denied, repository does not exist or may require authorization: server message: \
                 insufficient_scope: authorization failed",
                "push it to a registry",
            ),
            (
                "ImagePullBackOff",
                "Back-off pulling image \"i\": ErrImagePull: unexpected status from HEAD request to \
                 https://r/v2/i/manifests/1: 403 Forbidden",
                "--image-pull-secret",
            ),
            (
                "ErrImagePull",
                "failed to authorize: failed to fetch oauth token: 401 Unauthorized",
                "check the login",
            ),
            ("InvalidImageName", "x", "--image"),
            ("SignatureValidationFailed", "x", "cannot be used"),
            ("CreateContainerConfigError", "secret \"k\" not found", "--keys-secret"),
            (
                "CreateContainerConfigError",
                "couldn't find key username in Secret n/git",
                "--git-secret",
            ),
            ("CreateContainerConfigError", "image will run as root", "describe"),
            ("RunContainerError", "exec: no such file", "cannot run: exec: no such file"),
        ] {
            let (status, waiting) = container(reason, message);
            let it = final_failure(&status, &waiting).unwrap();
            let text = format!("{}\n{}", it.message, it.hint);
            assert!(text.contains(part) && text.contains(message), "{reason}: {text}");
        }
    }

    #[test]
    fn a_slow_registry_or_node_may_pass() {
        for (reason, message, is_pull) in [
            ("ErrImagePull", "dial tcp: lookup r on 10.0.0.2:53: no such host", true),
            ("ImagePullBackOff", "dial tcp 10.0.0.9:443: connect: connection refused", true),
            (
                "ErrImagePull",
                "429 Too Many Requests - toomanyrequests: You have reached your unauthenticated pull \
                 rate limit",
                true,
            ),
            ("RegistryUnavailable", "x", true),
            (
                "CreateContainerConfigError",
                "failed to sync secret cache: timed out waiting for the condition",
                false,
            ),
            ("CreateContainerError", "context deadline exceeded", false),
            ("ContainerCreating", "", false),
        ] {
            let (status, waiting) = container(reason, message);
            assert_eq!(final_failure(&status, &waiting), None, "{reason}: {message}");
            assert_eq!(pull_delay(&status, &waiting).is_some(), is_pull, "{reason}");
        }
    }
}
