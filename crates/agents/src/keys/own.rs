//! Credentials for models that an agent has itself, so that no limit holds (`spec/keys.md#limits`).

use std::path::Path;

use aifo_host::{Beneath, Found};
use aifo_types::{names_secret, secret_in_line};
use serde_json::Value;

use super::ModelKeys;
use crate::agents::{AgentSpec, StateFile};

impl ModelKeys {
    /// Returns a credential that the agent has beside the phantom keys: a variable, its login, or a key in its
    /// settings. `home` is the user's.
    pub fn own_credential(
        &self,
        agent: &AgentSpec,
        home: Option<&Path>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let is_set = |name: &&String| variable(name).is_some_and(|value| !value.trim().is_empty());
        let passed = |name: &&String| names_secret(name.as_bytes()) && !self.withholds(name);
        if let Some(name) = agent.variables.iter().filter(passed).find(is_set) {
            return Some(format!("the variable '{name}'"));
        }
        let home = Beneath::open(home?).ok()?;
        let named = |what: &str, path: &Path| format!("{what} '~/{}'", path.display());
        let has_login = |file: &&StateFile| {
            let login = selected(&home, file);
            login.iter().any(|(name, value)| !self.covers(name) && is_credential(name, value))
        };
        if let Some(login) = agent.credentials.iter().find(has_login) {
            return Some(named("the login", &login.from));
        }
        let has_key = |file: &&StateFile| has_secret(&Value::Object(selected(&home, file)));
        if let Some(file) = agent.import.iter().find(has_key) {
            return Some(named("a key in", &file.from));
        }
        let has_line = |path: &&std::path::PathBuf| {
            let bytes = read(&home, path);
            bytes.split(|&byte| byte == b'\n').any(|line| secret_in_line(line).is_some())
        };
        agent.settings.iter().find(has_line).map(|path| named("a key in", path))
    }

    /// Returns whether a member of the login has a phantom key in the agent's copy.
    fn covers(&self, member: &str) -> bool {
        self.of_login().iter().any(|(pointer, _)| pointer.split('/').nth(1) == Some(member))
    }
}

fn is_credential(name: &str, value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => !text.is_empty() && names_secret(name.as_bytes()),
        _ => false,
    }
}

fn has_secret(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            (!value.is_object() && is_credential(name, value)) || has_secret(value)
        }),
        Value::Array(items) => items.iter().any(has_secret),
        _ => false,
    }
}

/// Returns the part of a file that a state gets.
fn selected(home: &Beneath, file: &StateFile) -> serde_json::Map<String, Value> {
    let parsed = file.format.parse(&read(home, &file.from));
    match parsed.map(|object| file.select(&object)) {
        Some(Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    }
}

fn read(home: &Beneath, path: &Path) -> Vec<u8> {
    match home.read(path, MAX_BYTES) {
        Found::File(bytes, _) => bytes,
        Found::Missing | Found::Rejected(_) => Vec::new(),
    }
}

/// Larger files are not copied either.
const MAX_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent_programs::trusted_programs_here;
    use crate::agents::known_agents;
    use crate::keys::KeySettings;

    /// The credential that an agent has beside a proxied key, with this file and this variable.
    fn own(name: &str, key: &str, file: (&str, &str), set: &str) -> Option<String> {
        let agents = known_agents();
        let agent = agents.iter().find(|known| known.name == name).unwrap();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(file.0);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.1).unwrap();
        let variable = |name: &str| (name == key || name == set).then(|| "x".to_owned());
        let (settings, programs) = (KeySettings::default(), trusted_programs_here());
        let home = Some(home.path());
        let keys = ModelKeys::collect(agent, &settings, &programs, &[], home, variable);
        keys.unwrap().unwrap().own_credential(agent, home, variable)
    }

    #[test]
    fn a_credential_of_the_agents_own_is_found() {
        let none = ("x", "");
        let claude = ("claude", "ANTHROPIC_API_KEY");
        let codex = ("codex", "OPENAI_API_KEY");
        let opencode = ("opencode", "OPENAI_API_KEY");
        let auth = ".codex/auth.json";
        let logins = ".local/share/opencode/auth.json";
        for ((agent, key), file, variable, expected) in [
            (claude, none, "", None),
            (claude, none, "ANTHROPIC_MODEL", None),
            (claude, none, "CLAUDE_CODE_OAUTH_TOKEN", Some("'CLAUDE_CODE_OAUTH_TOKEN'")),
            (
                claude,
                (".claude/.credentials.json", r#"{"claudeAiOauth": {"accessToken": "x"}}"#),
                "",
                Some("the login '~/.claude/.credentials.json'"),
            ),
            (claude, (".claude/settings.json", r#"{"model": "m", "apiKeyHelper": "x"}"#), "", None),
            (codex, (auth, r#"{"OPENAI_API_KEY": "sk-x", "tokens": null}"#), "", None),
            (codex, (auth, r#"{"tokens": {"access_token": "x"}}"#), "", Some("the login")),
            (codex, none, "CODEX_ACCESS_TOKEN", Some("the variable")),
            (opencode, (logins, r#"{"openai": {"type": "api", "key": "x"}}"#), "", None),
            (
                opencode,
                (logins, r#"{"anthropic": {"type": "oauth", "access": "x"}}"#),
                "",
                Some("the login"),
            ),
            (opencode, none, "GITHUB_TOKEN", None),
            (
                opencode,
                (
                    ".config/opencode/opencode.json",
                    r#"{"provider": {"a": {"options": {"apiKey": "x"}}}}"#,
                ),
                "",
                Some("a key in"),
            ),
            (
                ("aider", "OPENAI_API_KEY"),
                (".aider.conf.yml", "openai-api-key: x\n"),
                "",
                Some("a key in"),
            ),
            (("aider", "OPENAI_API_KEY"), (".aider.conf.yml", "dark-mode: true\n"), "", None),
            (
                ("gemini", "GEMINI_API_KEY"),
                (".gemini/oauth_creds.json", r#"{"access_token": "x"}"#),
                "",
                Some("the login"),
            ),
        ] {
            let found = own(agent, key, file, variable);
            let found = found.as_deref();
            match expected {
                None => assert_eq!(found, None, "{agent} {file:?}"),
                Some(text) => assert!(found.unwrap().contains(text), "{agent} {file:?}: {found:?}"),
            }
        }
    }
}
