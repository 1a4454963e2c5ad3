//! The user's variables for the agent of a pod (`spec/kubernetes.md#settings`).

use aifo_agents::{AGENT_VARIABLE_PREFIX, AgentSpec, agent_variables, key_variables};
use aifo_types::is_secret;

/// The user's variables for an agent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentVariables {
    /// Those that a manifest may have, with their values.
    pub(crate) plain: Vec<(String, String)>,
    /// The names `AIFO_ENV_NAME` of secrets.
    pub(crate) secrets: Vec<String>,
    /// The names of base URLs, which a pod has from the secret or from `[keys]`.
    pub(crate) urls: Vec<String>,
}

impl AgentVariables {
    /// Reads those of this process.
    pub(crate) fn of_environment(agent: &AgentSpec) -> Self {
        let prefixed =
            agent_variables().into_iter().map(|name| format!("{AGENT_VARIABLE_PREFIX}{name}"));
        AgentVariables::read(agent, prefixed, |name| std::env::var(name).ok())
    }

    fn read(
        agent: &AgentSpec,
        prefixed: impl Iterator<Item = String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut variables = AgentVariables::default();
        let is_secret = |name: &str, value: &str| is_secret(name.as_bytes(), value.as_bytes());
        for name in prefixed {
            let Some(value) = variable(&name) else { continue };
            match is_secret(&name, &value) {
                true => variables.secrets.push(name),
                false => variables.plain.push((name, value)),
            }
        }
        let of_keys = key_variables(agent);
        for name in &agent.variables {
            let Some(value) = variable(name).filter(|value| !value.trim().is_empty()) else {
                continue;
            };
            // Keys of this machine are no keys of the pod.
            if is_secret(name, &value) {
                continue;
            }
            match of_keys.contains(name.as_str()) || value.contains("://") {
                true => variables.urls.push(name.clone()),
                false => variables.plain.push((name.clone(), value)),
            }
        }
        variables
    }

    /// Returns whether the manifest has this variable with its value.
    pub(crate) fn has_plain(&self, name: &str) -> bool {
        self.plain.iter().any(|(known, _)| known == name)
    }
}

#[cfg(test)]
mod tests {
    use aifo_agents::known_agents;

    use super::*;

    #[test]
    fn settings_of_an_agent_are_passed_and_keys_and_urls_are_not() {
        let agents = known_agents();
        let claude = agents.iter().find(|agent| agent.name == "claude").unwrap();
        let variable = |name: &str| {
            let value = match name {
                "ANTHROPIC_MODEL" | "AIFO_ENV_MODE" => "large",
                "ANTHROPIC_API_KEY" | "CLAUDE_CODE_OAUTH_TOKEN" | "AIFO_ENV_MY_TOKEN" => "hush",
                "ANTHROPIC_BASE_URL" => "https://me:hush@llm.example",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let prefixed = ["AIFO_ENV_MODE", "AIFO_ENV_MY_TOKEN"].map(str::to_owned);
        let read = AgentVariables::read(claude, prefixed.into_iter(), variable);
        let pair = |name: &str| (name.to_owned(), "large".to_owned());
        let expected = AgentVariables {
            plain: vec![pair("AIFO_ENV_MODE"), pair("ANTHROPIC_MODEL")],
            secrets: vec!["AIFO_ENV_MY_TOKEN".to_owned()],
            urls: vec!["ANTHROPIC_BASE_URL".to_owned()],
        };
        assert_eq!(read, expected);
    }
}
