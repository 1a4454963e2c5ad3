//! Settings of the user that have no effect in a pod (`spec/kubernetes.md#settings`).

use aifo_agents::{AgentSpec, SecretSource, key_variables};
use aifo_types::is_secret;
use serde_json::Value;

use crate::source::Layer;
use crate::table::Config;

/// Keys that have no effect in a pod. The second word is the value that a pod has anyway, which is not reported.
const DROPPED: [(&str, &str); 26] = [
    ("agent.state", "own"),
    ("agent.state_import", "settings"),
    ("ask.command", ""),
    ("containers.admit", ""),
    ("containers.ca_bundle", ""),
    ("containers.caches", "none"),
    ("containers.pids", ""),
    ("containers.publish", ""),
    ("history.enabled", "false"),
    ("history.secrets", "false"),
    ("idle_stop_secs", ""),
    ("listen", ""),
    ("net.addresses", ""),
    ("net.agent_ports", ""),
    ("net.host_ports", ""),
    ("net.join", ""),
    ("net.sockets", ""),
    ("notify.allow", ""),
    ("notify.command", ""),
    ("notify.enabled", "false"),
    ("notify.env_allow", ""),
    ("notify.options", ""),
    ("notify.safe_dirs", ""),
    ("notify.timeout_secs", ""),
    ("notify.trim_env", ""),
    ("services.NAME", ""),
];

impl Config {
    /// Returns what the user has set and a pod of this agent does not have, as sentences.
    pub fn dropped_in_pod(&self, agent: &AgentSpec) -> Vec<String> {
        let mut sentences = Vec::new();
        let names: Vec<String> = self.dropped_keys();
        if !names.is_empty() {
            sentences.push(format!("without effect in a pod: {}.", names.join(", ")));
        }
        if self.key_settings().is_some() {
            sentences.extend(self.dropped_of_keys(agent));
        }
        let acp = agent.acp.iter().flat_map(|acp| &acp.set);
        let secrets = agent.set.iter().chain(acp);
        let secrets = secrets.filter(|(name, value)| is_secret(name.as_bytes(), value.as_bytes()));
        let secrets: Vec<_> = secrets.map(|(name, _)| name.as_str()).collect();
        if !secrets.is_empty() {
            sentences.push(format!(
                "{} of [agents.{}] is not passed, because a manifest must not contain secrets.",
                secrets.join(", "),
                agent.name
            ));
        }
        sentences
    }

    fn dropped_keys(&self) -> Vec<String> {
        let is_users = |layer| matches!(layer, Layer::User | Layer::Environment | Layer::Flag);
        let is_dropped = |key: &str, value: &Value| {
            let is_key = |name: &str| match name.strip_suffix("NAME") {
                Some(table) => key.starts_with(table),
                None => name == key,
            };
            let found = DROPPED.iter().find(|(name, _)| is_key(name));
            let same = |word: &str| match value {
                Value::String(text) => text == word,
                Value::Bool(is_on) => word.parse() == Ok(*is_on),
                _ => false,
            };
            found.is_some_and(|(_, word)| !same(word))
        };
        let entries = self.entries().into_iter().filter(|entry| is_users(entry.layer()));
        let entries = entries.filter(|entry| is_dropped(&entry.key, &entry.value));
        entries.map(|entry| format!("{} ({})", entry.key, entry.from)).collect()
    }

    /// Returns what a pod does not have of the settings for the agent keys.
    fn dropped_of_keys(&self, agent: &AgentSpec) -> Vec<String> {
        let mut sentences = Vec::new();
        let entries = self.services.entries();
        let of_agent = agent.keys.iter().filter_map(|row| Some((row, entries.get(&row.provider)?)));
        for (row, entry) in of_agent {
            let name = &row.provider;
            if let Some(url) = entry.url.as_ref().filter(|url| url.is_local()) {
                sentences.push(format!(
                    "the URL of keys.{name} is not passed: it names port {} of this machine, which a pod cannot reach.",
                    url.port()
                ));
            }
            let source = match &entry.source {
                None => continue,
                Some(SecretSource::Variable(_)) => "env",
                Some(SecretSource::File(_)) => "file",
                Some(SecretSource::Command { .. }) => "command",
            };
            let variables = key_variables(agent);
            // Some agents read the key from a variable other than the user's.
            let of_user = variables
                .get(row.key.as_str())
                .or_else(|| variables.iter().find(|it| it.ends_with("_KEY")));
            sentences.push(format!(
                "'{source}' of keys.{name} is not passed: a pod takes keys from the secret '{}', such as {}.",
                self.keys_secret.value,
                of_user.copied().unwrap_or(&row.key)
            ));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::carried::CARRIED;
    use crate::file::File;
    use crate::table::KEYS;

    /// Keys that the client uses, for the manifest or itself.
    const OF_CLIENT: [&str; 25] = [
        "agent.keys",
        // A pod continues without its client in any case.
        "agent.on_hangup",
        "attach.KIND",
        "attach.detach_keys",
        "backend",
        // Of tools without containers.
        "confine",
        "containers.cpus",
        "containers.image_prefix",
        "containers.image_tag",
        "containers.memory",
        "containers.net",
        // Of podman's networks.
        "containers.pools",
        "containers.unrestricted",
        "keys.NAME",
        "kubernetes.",
        "max_secs",
        "net.agent.allow",
        "net.allow",
        "net.defaults",
        "net.deny",
        "net.kind.NAME.allow",
        "toolchains",
        "verbose",
        "web.",
        "kind.NAME.image",
    ];

    #[test]
    fn every_key_is_carried_or_used_by_the_client_or_reported() {
        for key in KEYS.iter().map(|row| row.names().key) {
            let (table, below) = key.split_once('.').unwrap_or((key, ""));
            let carried = CARRIED.iter().find(|(name, _)| *name == table);
            let is_carried = carried.is_some_and(|(_, omitted)| !omitted.contains(&below));
            let is_of_client =
                OF_CLIENT.iter().any(|it| *it == key || it.ends_with('.') && key.starts_with(it));
            let is_dropped = DROPPED.iter().any(|(name, _)| *name == key);
            assert!(is_carried || is_of_client || is_dropped, "{key}");
            assert!(!(is_carried && is_dropped), "{key}");
        }
    }

    fn dropped(users: &str, agent: &str) -> Vec<String> {
        let mut config = Config::builtin();
        config.apply_user(&File::new(Path::new("/c.toml"), users.to_owned())).unwrap();
        let spec = config.agent_named(agent).unwrap().clone();
        config.dropped_in_pod(&spec)
    }

    #[test]
    fn settings_without_effect_are_named() {
        assert_eq!(dropped("max_secs = 9\n[agent]\nstate = \"own\"\n", "codex"), [""; 0]);
        let users = "idle_stop_secs = 9\n[notify]\nenabled = false\nallow = [\"x\"]\n[containers]\n\
                     pids = 7\ncaches = \"none\"\n";
        let expected = "without effect in a pod: idle_stop_secs (/c.toml:1), containers.pids (/c.toml:6), \
             notify.allow (/c.toml:4).";
        assert_eq!(dropped(users, "codex"), [expected]);
    }

    #[test]
    fn sources_of_keys_and_local_urls_are_named_for_the_agents_provider() {
        let users = "[keys.openai]\nurl = \"http://localhost:4000\"\nenv = \"WORK\"\n\
                     [keys.groq]\nenv = \"G\"\n";
        let [url, source] = &dropped(users, "codex")[..] else { panic!("two sentences") };
        assert!(
            url.starts_with("the URL of keys.openai is not passed: it names port 4000"),
            "{url}"
        );
        assert!(source.contains("secret 'aifo-keys', such as OPENAI_API_KEY"), "{source}");
        assert_eq!(dropped(users, "claude"), [""; 0]);
        let url = "[keys.openai]\nurl = \"https://llm.example\"\n";
        assert_eq!(dropped(url, "codex"), [""; 0]);
    }

    #[test]
    fn a_secret_of_an_agents_row_is_named() {
        let users = "[agents.codex]\nset = { MY_TOKEN = \"hush\", MODE = \"x\" }\n";
        let [text] = &dropped(users, "codex")[..] else { panic!("one sentence") };
        assert!(text.starts_with("MY_TOKEN of [agents.codex] is not passed"), "{text}");
    }
}
