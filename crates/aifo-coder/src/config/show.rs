//! The rows of `config show`: key, value, source.

use aifo_policy::PermissionRules;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::acp;
use crate::config::containers::{ContainerSettings, caches_word, net_word};
use crate::config::permissions::shown as rule;
use crate::config::registries::Registries;
use crate::config::source::{Layer, Source, Sourced};
use crate::config::values::{Config, ToolEffect, confine_word};

/// A row of `config show`.
#[derive(Debug, Serialize)]
pub(crate) struct ConfigEntry {
    /// The key with its table: `notify.allow`.
    pub(crate) key: String,
    pub(crate) value: Value,
    /// Shown for a value that is not set.
    #[serde(skip)]
    absent: &'static str,
    layer: Layer,
    /// The line, variable or flag.
    pub(crate) from: String,
}

impl ConfigEntry {
    /// Returns the value as TOML, or the text for an absent one.
    pub(crate) fn shown(&self) -> String {
        match &self.value {
            Value::Null => format!("({})", self.absent),
            value => value.to_string(),
        }
    }
}

/// Returns all rows, in the order of `spec/config.md`.
pub(crate) fn entries(config: &Config) -> Vec<ConfigEntry> {
    let endpoint = config.listen.value.as_ref().map(ToString::to_string);
    let mut all = vec![
        row("toolchains", json!(config.toolchains.value.words()), "none", &config.toolchains),
        row("idle_stop_secs", json!(config.idle_stop_secs.value), "never", &config.idle_stop_secs),
        row("max_secs", json!(config.max_secs.value), "no limit", &config.max_secs),
        row("max_executions", json!(config.max_executions.value), "", &config.max_executions),
        row("verbose", json!(config.verbose.value), "", &config.verbose),
        row("listen", json!(endpoint), "a unix socket of the session", &config.listen),
        row(
            "local_python",
            json!(config.local_python.value),
            "the system's python3",
            &config.local_python,
        ),
        row("confine", json!(confine_word(config.confine.value)), "", &config.confine),
    ];
    all.extend(container_entries(&config.containers));
    all.extend(config.tool_rules.iter().map(|rule| {
        let effect = match rule.effect {
            ToolEffect::Allow => "allow",
            ToolEffect::Deny => "deny",
        };
        let key = format!("kind.{}.{effect}", rule.kind);
        row(&key, json!(rule.tools.value), "", &rule.tools)
    }));
    all.extend(config.env_rules.iter().map(|rule| {
        let key = format!("env.{}", rule.effect.as_str());
        row(&key, json!(rule.names.value), "", &rule.names)
    }));
    let notify = &config.notify;
    let limit = "as max_secs";
    all.extend([
        row("notify.enabled", json!(notify.enabled.value), "", &notify.enabled),
        row("notify.command", json!(notify.command.value), "looked up by name", &notify.command),
        row("notify.allow", json!(notify.allow.value), "", &notify.allow),
        row("notify.options", json!(notify.options.value), "", &notify.options),
        row("notify.safe_dirs", json!(notify.safe_dirs.value), "", &notify.safe_dirs),
        row("notify.trim_env", json!(notify.trim_env.value), "", &notify.trim_env),
        row("notify.env_allow", json!(notify.env_allow.value), "", &notify.env_allow),
        row("notify.timeout_secs", json!(notify.timeout_secs.value), limit, &notify.timeout_secs),
    ]);
    let agent = &config.agent;
    let rule = "as agent.smart";
    all.extend([
        row("agent.smart", json!(agent.smart.value.as_str()), "", &agent.smart),
        row("agent.node", json!(agent.node.value), rule, &agent.node),
        row("agent.python", json!(agent.python.value), rule, &agent.python),
    ]);
    all.extend(config.agent_rows.iter().filter_map(|name| {
        let spec = config.agents.iter().find(|spec| spec.name == name.value)?;
        // Names only: values may be secret.
        let set: Vec<_> = spec.set.iter().map(|(name, _)| name).collect();
        let value = json!({
            "image": spec.image, "command": spec.command, "state": spec.state, "private": spec.private, "settings": spec.settings,
            "variables": spec.variables, "set": set, "node": spec.smart.node,
            "python": spec.smart.python, "local_python": spec.local_python, "shell": spec.shell,
            "acp": spec.acp.as_ref().map(acp::shown),
        });
        Some(row(&format!("agents.{}", spec.name), value, "", name))
    }));
    all.extend(permission_entries(&config.permissions));
    all
}

fn container_entries(containers: &ContainerSettings) -> Vec<ConfigEntry> {
    let mut all = vec![
        row("backend", json!(containers.backend.value.as_str()), "", &containers.backend),
        row("containers.net", json!(net_word(containers.net.value)), "", &containers.net),
        row("containers.publish", json!(containers.publish.value), "", &containers.publish),
        row(
            "containers.pools",
            json!(containers.pools.value.as_ref().map(|pools| words(pools))),
            "podman's own",
            &containers.pools,
        ),
        row(
            "containers.memory",
            json!(containers.memory.value),
            "three quarters of the machine's",
            &containers.memory,
        ),
        row("containers.pids", json!(containers.pids.value), "4096", &containers.pids),
        row("containers.cpus", json!(containers.cpus.value), "all of them", &containers.cpus),
        row(
            "containers.caches",
            json!(caches_word(containers.caches.value)),
            "",
            &containers.caches,
        ),
        row(
            "containers.image_prefix",
            json!(containers.image_prefix.value),
            "",
            &containers.image_prefix,
        ),
        row("containers.image_tag", json!(containers.image_tag.value), "", &containers.image_tag),
    ];
    all.extend(registry_entries(&containers.registries));
    let attached = containers.attached.iter();
    all.extend(
        attached.map(|(kind, name)| row(&format!("attach.{kind}"), json!(name.value), "", name)),
    );
    let images = containers.images.iter();
    all.extend(
        images
            .map(|(kind, image)| row(&format!("kind.{kind}.image"), json!(image.value), "", image)),
    );
    all
}

fn permission_entries(rules: &PermissionRules<Source>) -> Vec<ConfigEntry> {
    let lists = [("allow", &rules.allow), ("ask", &rules.ask), ("deny", &rules.deny)];
    let rows = lists.into_iter().flat_map(|(list, rules)| {
        let key = format!("permissions.{list}");
        rules
            .iter()
            .map(move |sourced| entry(&key, json!([rule(&sourced.value)]), "", &sourced.source))
    });
    let default = &rules.default;
    let last = entry("permissions.default", json!(default.value.as_str()), "", &default.source);
    rows.chain([last]).collect()
}

fn words(of: &[impl ToString]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

fn registry_entries(registries: &Registries) -> Vec<ConfigEntry> {
    let key = "containers.admit";
    let mut all: Vec<ConfigEntry> = registries
        .admit
        .iter()
        .map(|sourced| row(key, json!([sourced.value.as_str()]), "", sourced))
        .collect();
    if all.is_empty() {
        all.push(row(key, json!([]), "", &Sourced::builtin(())));
    }
    let ca_bundle = &registries.ca_bundle;
    all.push(row("containers.ca_bundle", json!(ca_bundle.value), "SSL_CERT_FILE", ca_bundle));
    all
}

fn row<T>(key: &str, value: Value, absent: &'static str, sourced: &Sourced<T>) -> ConfigEntry {
    entry(key, value, absent, &sourced.source)
}

fn entry(key: &str, value: Value, absent: &'static str, source: &Source) -> ConfigEntry {
    ConfigEntry {
        key: key.to_owned(),
        value,
        absent,
        layer: source.layer(),
        from: source.to_string(),
    }
}
