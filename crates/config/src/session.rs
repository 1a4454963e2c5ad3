//! Settings of a session that follow from several keys.

use std::path::Path;
use std::time::Duration;

use aifo_agents::{
    AgentSpec, ForgeSettings, KeySettings, SmartRuntimes, ToolSettings, UnreachableUrl,
    UserSettings,
};
use aifo_engine::Mount;
use aifo_network::{NetworkRules, RuleScope, ToolStacks};
use aifo_policy::{CallerOptions, Forwarding, NotifyEnvironment, NotifyRules};
use aifo_provider::UsageLimits;
use aifo_sidecar::{Admitted, TOOLS_STACK};
use aifo_types::{Kind, proxy_variables::PROXY_VARIABLES};

use crate::choices::{KeyMode, NET, SmartMode};
use crate::error::ConfigError;
use crate::registries;
use crate::source::Source;
use crate::table::Config;

/// Rules in the line of a network by name.
const SHOWN_RULES: usize = 8;

impl Config {
    /// Finds an agent. Errors: no agent has this name.
    pub fn agent_named(&self, name: &str) -> Result<&AgentSpec, ConfigError> {
        self.agents.named(name)
    }

    /// Returns for which runtimes this agent's calls are decided smartly.
    pub fn smart_for(&self, agent: Option<&str>) -> SmartRuntimes {
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

    /// Returns the proxy rules for notifications.
    pub fn notify_rules(&self) -> NotifyRules {
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

    /// Returns the word of `--net`, the source of one that is not the default, and of a network by name the
    /// rules of all tools, or those of a kind with its stack.
    pub fn network(&self, workspace: &Path, of: Option<&Kind>) -> String {
        let word = (NET.show)(&self.net.value);
        let mut text = word.as_str().unwrap_or_default().to_owned();
        if !self.net.is_builtin() {
            text += &format!(" ({})", self.net.source);
        }
        if self.net.value.is_by_name() {
            let (rules, _) = self.network_rules(workspace);
            let stacks = self.tool_stacks(&rules);
            let stack = of.and_then(|kind| stacks.name_of(kind));
            if let Some(stack) = stack.filter(|stack| *stack != TOOLS_STACK) {
                text += &format!(", stack {stack}");
            }
            let of_tools = rules.iter().filter(|rule| match &rule.scope {
                RuleScope::All => true,
                RuleScope::Kind(kind) => of.is_none_or(|of| of == kind),
                RuleScope::Agent => false,
            });
            let list: Vec<_> = of_tools.map(ToString::to_string).collect();
            let (shown, rest) = list.split_at(list.len().min(SHOWN_RULES));
            text += ": ";
            text += &if shown.is_empty() { "no name".to_owned() } else { shown.join(", ") };
            if !rest.is_empty() {
                text += &format!(", and {} more rules of `aifo-coder net list`", rest.len());
            }
        }
        text
    }

    /// Returns the stacks of the tools with these rules.
    pub fn tool_stacks(&self, rules: &NetworkRules) -> ToolStacks {
        let kinds = self.toolchains.value.kinds();
        match self.join.value.is_some() {
            true => ToolStacks::shared(&kinds),
            false => ToolStacks::new(rules, &kinds),
        }
    }

    /// Returns the word of `--net`.
    pub fn network_mode(&self) -> String {
        (NET.show)(&self.net.value).as_str().unwrap_or_default().to_owned()
    }

    /// Returns the rules of a network by name, without the hosts of an agent, and the settings of the user
    /// that no rule can allow.
    pub fn network_rules(&self, workspace: &Path) -> (NetworkRules, Vec<UnreachableUrl>) {
        let kinds = self.toolchains.value.kinds();
        let (mut rules, mut unreachable) = (NetworkRules::default(), Vec::new());
        if self.net_defaults.value {
            rules = NetworkRules::default_of(&kinds);
            let settings = UserSettings::of_environment(workspace);
            unreachable = settings.allow_settings(&mut rules, &kinds, &self.host_ports.value);
        }
        self.names.add_to(&mut rules);
        rules.permit_addresses(&self.net_addresses.value);
        (rules, unreachable)
    }

    /// Returns the settings for model keys; `None` if agents get the keys.
    pub fn key_settings(&self) -> Option<KeySettings> {
        let limits =
            UsageLimits { requests: self.max_requests.value, tokens: self.max_tokens.value };
        let is_proxied = self.key_mode.value == KeyMode::Proxy;
        is_proxied.then(|| KeySettings { entries: self.services.entries(), limits })
    }

    /// Returns the settings for forges; `None` if agents get the credentials.
    pub fn forge_settings(&self) -> Option<ForgeSettings> {
        (self.key_mode.value == KeyMode::Proxy).then(|| self.services.forges())
    }

    /// Returns the flag of a limit of requests to models that is set.
    pub fn model_limit(&self) -> Option<&'static str> {
        let tokens = self.max_tokens.value.map(|_| "--max-tokens");
        tokens.or(self.max_requests.value.map(|_| "--max-requests"))
    }

    /// Resolves the admitted items. Errors: an item is not safe to share.
    pub fn admitted(&self) -> Result<Vec<Admitted>, ConfigError> {
        let kinds = self.toolchains.value.kinds();
        registries::resolve(&self.admit, &kinds, self.ca_bundle.value.as_deref())
    }

    /// Returns what tools in containers get of the user's settings of package managers.
    pub fn tool_settings(&self, workspace: &Path, admitted: &[Admitted]) -> Vec<ToolSettings> {
        let mounted = admitted.iter().filter_map(|admitted| match &admitted.mount {
            Some(Mount::Bind { to, .. }) => Some(to.clone()),
            _ => None,
        });
        // The file of pip has another place if it is admitted.
        let pip = admitted
            .iter()
            .any(|it| it.variables.iter().any(|(name, _)| name == "PIP_CONFIG_FILE"));
        let mounted =
            mounted.chain(pip.then(|| "/home/coder/.pip/pip.conf".into())).collect::<Vec<_>>();
        let kinds = self.toolchains.value.kinds();
        UserSettings::of_environment(workspace).for_tools(&kinds, &mounted)
    }

    /// Returns which of a caller's variables pass to tools. Tools that have a network by name do not reach
    /// a proxy by its address, so they get no proxy variable that the user has not set.
    pub fn forwarding(&self, tools_have_names: bool) -> Forwarding {
        let mut forwarding = self.variables.forwarding.clone();
        for name in PROXY_VARIABLES.iter().filter(|_| tools_have_names) {
            let is_set = self.variables.forwarding.set_names().any(|set| set == *name);
            if !is_set {
                // The names are valid.
                let _ = forwarding.deny(name);
            }
        }
        forwarding
    }

    /// Returns whether local tools have a network by name: the user has set it, not only the default.
    pub fn has_local_names(&self) -> bool {
        self.net.value.is_by_name() && !self.net.is_builtin()
    }

    /// Returns the first flag that applies to containers only.
    pub fn container_flag(&self) -> Option<&'static str> {
        let of_containers = [
            &self.publish.source,
            &self.agent_ports.source,
            &self.join.source,
            &self.memory.source,
            &self.pids.source,
            &self.cpus.source,
        ];
        let of_network = match self.has_local_names() {
            true => Vec::new(),
            false => {
                let names = self.names.flag();
                [&self.net.source, &self.host_ports.source].into_iter().chain(names).collect()
            }
        };
        let images = self.kinds.images.values().map(|image| &image.source);
        of_containers.into_iter().chain(of_network).chain(images).find_map(|source| match source {
            Source::Flag(name) => Some(*name),
            _ => None,
        })
    }
}
