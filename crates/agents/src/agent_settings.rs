//! The needs of an agent's settings: hosts of URLs, and variables (`spec/network.md#agents`).

use std::ffi::OsString;
use std::path::Path;

use aifo_host::{Beneath, Found};
use serde_json::Value;

use crate::agent_variables::{AGENT_VARIABLE_PREFIX, agent_variables};
use crate::agents::{AgentSpec, MAX_SETTINGS_BYTES};

/// The needs of the user's settings of an agent.
#[derive(Debug, Default)]
pub struct AgentSettings {
    /// Each URL, with its file.
    pub(crate) urls: Vec<(String, String)>,
    /// The names of variables with a key, each with its file.
    variables: Vec<(String, String)>,
}

/// The key of a variable's name, as of codex.
const VARIABLE_KEY: &str = "env_key";

impl AgentSettings {
    /// Reads what the agent gets of the files in this home directory. In the workspace an agent could have
    /// written them.
    pub fn of(spec: &AgentSpec, home: Option<&Path>, workspace: &Path) -> Self {
        let mut settings = AgentSettings::default();
        let Some(path) = home.and_then(|home| home.canonicalize().ok()) else { return settings };
        let Ok(home) = Beneath::open(&path) else { return settings };
        for file in spec.import.iter().filter(|file| !path.join(&file.from).starts_with(workspace))
        {
            let Found::File(bytes, _) = home.read(&file.from, MAX_SETTINGS_BYTES) else { continue };
            let Some(object) = file.format.parse(&bytes) else { continue };
            settings.collect(&file.select(&object), "", &format!("~/{}", file.from.display()));
        }
        settings
    }

    fn collect(&mut self, value: &Value, key: &str, file: &str) {
        match value {
            Value::String(text) if key == VARIABLE_KEY => {
                self.variables.push((text.clone(), file.to_owned()));
            }
            Value::String(text) if text.starts_with("http://") || text.starts_with("https://") => {
                self.urls.push((text.clone(), file.to_owned()));
            }
            Value::Array(list) => list.iter().for_each(|value| self.collect(value, key, file)),
            Value::Object(object) => {
                object.iter().for_each(|(key, value)| self.collect(value, key, file));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns a line for each variable that the launcher has and the agent does not get.
    pub fn withheld_variables(
        &self,
        spec: &AgentSpec,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<String> {
        let passed = agent_variables();
        let is_withheld = |name: &String| !spec.variables.contains(name) && !passed.contains(name);
        let withheld = self.variables.iter().filter(|(name, _)| is_withheld(name));
        let withheld = withheld.filter(|(name, _)| variable(name).is_some_and(|it| !it.is_empty()));
        let line = |(name, file): &(String, String)| {
            format!(
                "'{file}' names the variable {name}, which {} does not get; to pass it: export \
                 {AGENT_VARIABLE_PREFIX}{name}=\"${name}\"",
                spec.name
            )
        };
        withheld.map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agents::known_agents;

    #[test]
    fn settings_name_urls_and_variables() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".codex")).unwrap();
        let text = "model = 'm'\n[model_providers.local]\nbase_url = 'http://localhost:8000/v1'\n\
                    env_key = 'MY_MODEL_KEY'\n[mcp_servers.docs]\nurl = 'https://mcp.example'\n";
        fs::write(home.path().join(".codex/config.toml"), text).unwrap();
        let codex = known_agents().iter().find(|agent| agent.name == "codex").unwrap();
        let elsewhere = Path::new("/elsewhere");
        let settings = AgentSettings::of(codex, Some(home.path()), elsewhere);
        let file = "~/.codex/config.toml".to_owned();
        assert!(settings.urls.contains(&("http://localhost:8000/v1".to_owned(), file.clone())));
        assert!(!settings.urls.iter().any(|(url, _)| url.contains("mcp")), "what is imported");
        let set = |name: &str| (name == "MY_MODEL_KEY").then(|| OsString::from("k"));
        let line = format!(
            "'{file}' names the variable MY_MODEL_KEY, which codex does not get; to pass it: export \
             AIFO_ENV_MY_MODEL_KEY=\"$MY_MODEL_KEY\""
        );
        assert_eq!(settings.withheld_variables(codex, &set), [line]);
        assert_eq!(settings.withheld_variables(codex, &|_| None), [""; 0]);
        for (home, workspace) in [(None, elsewhere), (Some(home.path()), home.path())] {
            let none = AgentSettings::of(codex, home, workspace);
            assert!(none.urls.is_empty() && none.variables.is_empty());
        }
    }
}
