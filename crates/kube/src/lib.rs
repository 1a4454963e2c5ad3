//! Sessions in pods of Kubernetes (`spec/kubernetes.md`).
//!
//! In scope: the pod of a session with its network policy ([`SessionPod::render`]), the role to run
//! sessions ([`Role::render`]), as commented YAML, and the state of a pod ([`PodObject`]); [`Kubectl`], which
//! starts kubectl for a target and classifies failures; sessions in pods from their user's machine ([`client`]),
//! and the launcher processes in a pod ([`in_pod`]).
//!
//! Out of scope: command lines (`aifo-coder`), and the runners' connections in a pod (`aifo-sidecar`).
//!
//! ```
//! use aifo_kube::{Role, Subject};
//!
//! let role = Role { namespace: "agents".into(), subject: Subject::Group("team".into()) };
//! let text = role.render();
//! assert!(text.contains("kind: RoleBinding") && text.contains("namespace: agents"));
//! ```
//!
//! Architecture invariant: all but `kubectl`, `client` and `in_pod` is pure. The same description gives the same text. No
//! credential of a cluster enters this crate: kubectl has them.

pub mod client;
mod container;
mod disruption;
mod dns;
mod event;
pub mod in_pod;
mod kubectl;
mod network_policy;
mod pod;
mod pod_failure;
mod pod_object;
mod pod_state;
mod role;
mod security;
mod session_pod;
mod volumes;
mod waiting;
mod yaml;

pub use dns::{DnsServer, DnsServerError};
pub use event::EventObject;
pub use kubectl::{
    ApiFailure, FailureCause, KubeContext, KubeTarget, Kubectl, KubectlAnswer, KubectlError,
    MIN_KUBECTL_MINOR, RETRY_TIME,
};
pub use pod::{CREDENTIAL_HELPER, RenderError};
pub use pod_failure::PodFailure;
pub use pod_object::PodObject;
pub use pod_state::PodState;
pub use role::{Right, Role, Subject};
pub use security::SESSION_LABEL;
pub use session_pod::{
    Keys, KindContainer, Limits, PodAgent, PodNetwork, SessionPod, WorkspaceSource,
};
