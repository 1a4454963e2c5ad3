//! The user's variables for the agent of a pod (`spec/kubernetes.md#settings`).

use aifo_launch::{AGENT_VARIABLE_PREFIX, agent_variables};
use aifo_types::is_secret;

/// Returns the variables `AIFO_ENV_NAME` of this process that a manifest may have, and the names of those
/// that are secrets.
pub(super) fn variables_for_agent() -> (Vec<(String, String)>, Vec<String>) {
    let prefixed =
        agent_variables().into_iter().map(|name| format!("{AGENT_VARIABLE_PREFIX}{name}"));
    let with_values = prefixed.filter_map(|name| Some((std::env::var(&name).ok()?, name)));
    let (secrets, plain): (Vec<_>, Vec<_>) =
        with_values.partition(|(value, name)| is_secret(name.as_bytes(), value.as_bytes()));
    let plain = plain.into_iter().map(|(value, name)| (name, value)).collect();
    (plain, secrets.into_iter().map(|(_, name)| name).collect())
}
