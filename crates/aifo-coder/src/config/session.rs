//! Settings of a session that follow from several keys.

use std::time::Duration;

use aifo_launch::{Admitted, AgentSpec, SmartRuntimes};
use aifo_policy::{CallerOptions, NotifyEnvironment, NotifyRules};

use crate::config::choices::{NET, SmartMode};
use crate::config::error::ConfigError;
use crate::config::registries;
use crate::config::source::Source;
use crate::config::table::Config;

impl Config {
    /// Finds an agent. Errors: no agent has this name.
    pub(crate) fn agent_named(&self, name: &str) -> Result<&AgentSpec, ConfigError> {
        self.agents.named(name)
    }

    /// Returns for which runtimes this agent's calls are decided smartly.
    pub(crate) fn smart_for(&self, agent: Option<&str>) -> SmartRuntimes {
        let row = agent.and_then(|name| self.agents.find(name));
        let rule = match self.smart.value {
            SmartMode::Auto => row.map(|row| row.smart).unwrap_or_default(),
            SmartMode::On => SmartRuntimes { node: true, python: true },
            SmartMode::Off => SmartRuntimes::default(),
        };
        SmartRuntimes {
            node: self.smart_node.value.unwrap_or(rule.node),
            python: self.smart_python.value.unwrap_or(rule.python),
        }
    }

    /// Returns the proxy's rules for notifications.
    pub(crate) fn notify_rules(&self) -> NotifyRules {
        NotifyRules {
            command: self.notify_command.value.clone(),
            allowlist: match self.notify_enabled.value {
                true => self.notify_allow.value.clone(),
                false => Vec::new(),
            },
            options: match self.notify_options.value {
                true => CallerOptions::Allowed,
                false => CallerOptions::Refused,
            },
            safe_dirs: self.notify_safe_dirs.value.clone(),
            environment: match self.notify_trim_env.value {
                true => NotifyEnvironment::Trimmed(self.notify_env_allow.value.clone()),
                false => NotifyEnvironment::Full,
            },
            timeout: self.notify_timeout_secs.value.map(Duration::from_secs),
        }
    }

    /// Returns the word of `--net`, and the source of one that is not the default.
    pub(crate) fn network(&self) -> String {
        let word = (NET.show)(&self.net.value);
        let word = word.as_str().unwrap_or_default();
        match self.net.is_builtin() {
            true => word.to_owned(),
            false => format!("{word} ({})", self.net.source),
        }
    }

    /// Resolves the admitted items. Errors: an item does not exist or is not safe to share.
    pub(crate) fn admitted(&self) -> Result<Vec<Admitted>, ConfigError> {
        registries::resolve(&self.admit, self.ca_bundle.value.as_deref())
    }

    /// Returns the first flag that applies to containers only.
    pub(crate) fn container_flag(&self) -> Option<&'static str> {
        let sources = [
            &self.net.source,
            &self.publish.source,
            &self.host_ports.source,
            &self.agent_ports.source,
            &self.memory.source,
            &self.pids.source,
            &self.cpus.source,
        ];
        let images = self.kinds.images.values().map(|image| &image.source);
        let names = self.names.flag().map(|list| &list.source);
        sources.into_iter().chain(names).chain(images).find_map(|source| match source {
            Source::Flag(name) => Some(*name),
            _ => None,
        })
    }
}
