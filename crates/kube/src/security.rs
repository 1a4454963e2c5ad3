//! Pod Security *restricted*, and metadata that all objects of a session have.

use crate::session_pod::SessionPod;
use crate::yaml::{Entry, Node, list, map};

/// The label of all objects of a session.
pub const SESSION_LABEL: &str = "dev.aifo.session";

/// The label with the agent name.
pub(crate) const AGENT_LABEL: &str = "dev.aifo.agent";

/// Returns the name of the session's objects.
pub(crate) fn object_name(session: &str) -> String {
    format!("aifo-{session}")
}

pub(crate) fn metadata(pod: &SessionPod) -> Node {
    let agent = Some((AGENT_LABEL, pod.agent.name.as_str()));
    let labels = [("app.kubernetes.io/managed-by", "aifo"), (SESSION_LABEL, &pod.session)];
    let labels = labels.into_iter().chain(agent.filter(|(_, name)| is_label(name)));
    let labels = labels.map(|(name, value)| Entry::new(name, value));
    let name = Entry::new("name", object_name(&pod.session));
    let namespace = pod.namespace.iter().map(|it| Entry::new("namespace", it.as_str()));
    map([name].into_iter().chain(namespace).chain([Entry::new("labels", map(labels))]))
}

/// Returns whether a text can be the value of a label.
fn is_label(value: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    value.len() <= 63
        && is_end(value.bytes().next())
        && is_end(value.bytes().last())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The security context of the pod.
pub(crate) fn of_pod(user: u32) -> Node {
    map([
        Entry::new("runAsNonRoot", true),
        Entry::new("runAsUser", u64::from(user)),
        Entry::new("runAsGroup", u64::from(user)),
        Entry::new("fsGroup", u64::from(user)),
        Entry::new("seccompProfile", map([Entry::new("type", "RuntimeDefault")])),
    ])
}

/// The security context of every container.
pub(crate) fn of_container() -> Node {
    map([
        Entry::new("allowPrivilegeEscalation", false),
        Entry::new("readOnlyRootFilesystem", true),
        Entry::new("capabilities", map([Entry::new("drop", list(["ALL"]))])),
    ])
}
