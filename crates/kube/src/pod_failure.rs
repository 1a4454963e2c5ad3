//! The failure of a session's pod.

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

/// Returns the failure of a container whose process could not be started.
pub(crate) fn not_started(container: &str, message: &str) -> PodFailure {
    PodFailure {
        message: format!("the container '{container}' cannot run: {message}"),
        hint: "check its image: --image, --toolchain-image, --launcher-image",
        log_of: None,
    }
}
