//! The values of a session, and their defaults.

use std::path::PathBuf;
use std::time::Duration;

use aifo_launch::{self as launch, AgentSpec, Confine, Limits, known_agents};
use aifo_policy::{
    CallerOptions, DefaultVerdict, Forwarding, NotifyEnvironment, NotifyRules, PermissionRules,
    Policy, WithSource,
};
use aifo_types::{Endpoint, Kind};

use crate::config::containers::ContainerSettings;
use crate::config::error::{ConfigError, suggestion};
use crate::config::file::user_file_path;
use crate::config::source::{Source, Sourced};
use crate::config::toolchains::Toolchains;

/// The configuration of a session.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) toolchains: Sourced<Toolchains>,
    /// Idle time after which a sidecar that was started on demand is stopped; `None`: never.
    pub(crate) idle_stop_secs: Sourced<Option<u64>>,
    /// `None`: no time limit.
    pub(crate) max_secs: Sourced<Option<u64>>,
    pub(crate) max_executions: Sourced<usize>,
    pub(crate) verbose: Sourced<bool>,
    /// `None`: a unix socket in the session directory.
    pub(crate) listen: Sourced<Option<Endpoint>>,
    /// The agent's python; `None`: the system's.
    pub(crate) local_python: Sourced<Option<PathBuf>>,
    pub(crate) confine: Sourced<Confine>,
    pub(crate) containers: ContainerSettings,
    pub(crate) policy: Policy,
    /// Changes to the built-in policy.
    pub(crate) tool_rules: Vec<ToolRule>,
    pub(crate) forwarding: Forwarding,
    /// Changes to the built-in forwarding rules.
    pub(crate) env_rules: Vec<EnvRule>,
    pub(crate) notify: NotifySettings,
    pub(crate) agent: AgentSettings,
    /// The table of agents, by name.
    pub(crate) agents: Vec<AgentSpec>,
    /// Rows that the user changed or added.
    pub(crate) agent_rows: Vec<Sourced<String>>,
    /// Rules for an agent's permission requests.
    pub(crate) permissions: PermissionRules<Source>,
}

/// A change of a kind's allowlist.
#[derive(Clone, Debug)]
pub(crate) struct ToolRule {
    pub(crate) kind: Kind,
    pub(crate) effect: ToolEffect,
    pub(crate) tools: Sourced<Vec<String>>,
}

/// The effect of a [`ToolRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolEffect {
    Allow,
    Deny,
}

/// A change of the variables that tools get.
#[derive(Clone, Debug)]
pub(crate) struct EnvRule {
    pub(crate) effect: EnvEffect,
    /// Names only: values may be secret.
    pub(crate) names: Sourced<Vec<String>>,
}

/// The effect of an [`EnvRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvEffect {
    Allow,
    Deny,
    Set,
}

/// `[notify]`: commands that notify the user.
#[derive(Clone, Debug)]
pub(crate) struct NotifySettings {
    pub(crate) enabled: Sourced<bool>,
    pub(crate) command: Sourced<Option<Vec<String>>>,
    pub(crate) allow: Sourced<Vec<String>>,
    pub(crate) options: Sourced<bool>,
    pub(crate) safe_dirs: Sourced<Vec<PathBuf>>,
    pub(crate) trim_env: Sourced<bool>,
    pub(crate) env_allow: Sourced<Vec<String>>,
    /// `None`: the time limit of tools.
    pub(crate) timeout_secs: Sourced<Option<u64>>,
}

/// `[agent]`: smart decisions, per runtime.
#[derive(Clone, Debug)]
pub(crate) struct AgentSettings {
    pub(crate) smart: Sourced<SmartMode>,
    /// Overrides `smart` for node.
    pub(crate) node: Sourced<Option<bool>>,
    /// Overrides `smart` for python.
    pub(crate) python: Sourced<Option<bool>>,
}

/// Smart decisions for both runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SmartMode {
    /// As in the table of agents.
    Auto,
    On,
    Off,
}

impl Config {
    /// Returns the built-in configuration.
    pub(crate) fn builtin() -> Self {
        let notify = NotifyRules::default();
        Config {
            toolchains: Sourced::builtin(Toolchains::of(Vec::new())),
            idle_stop_secs: Sourced::builtin(Some(IDLE_STOP_SECS)),
            max_secs: Sourced::builtin(None),
            max_executions: Sourced::builtin(Limits::default().max_executions),
            verbose: Sourced::builtin(false),
            listen: Sourced::builtin(None),
            local_python: Sourced::builtin(None),
            confine: Sourced::builtin(Confine::Auto),
            containers: ContainerSettings::builtin(),
            policy: Policy::builtin(),
            tool_rules: Vec::new(),
            forwarding: Forwarding::builtin(),
            env_rules: Vec::new(),
            notify: NotifySettings {
                enabled: Sourced::builtin(true),
                command: Sourced::builtin(notify.command),
                allow: Sourced::builtin(notify.allowlist),
                options: Sourced::builtin(notify.options == CallerOptions::Allowed),
                safe_dirs: Sourced::builtin(notify.safe_dirs),
                trim_env: Sourced::builtin(false),
                env_allow: Sourced::builtin(Vec::new()),
                timeout_secs: Sourced::builtin(None),
            },
            agent: AgentSettings {
                smart: Sourced::builtin(SmartMode::Auto),
                node: Sourced::builtin(None),
                python: Sourced::builtin(None),
            },
            agents: known_agents(),
            agent_rows: Vec::new(),
            permissions: PermissionRules::new(WithSource {
                value: DefaultVerdict::Ask,
                source: Source::BuiltIn,
            }),
        }
    }

    /// Finds a kind by name or alias.
    pub(crate) fn kind_named(&self, word: &str, source: &Source) -> Result<Kind, ConfigError> {
        if let Some(found) = self.policy.kind_named(word) {
            return Ok(found.kind.clone());
        }
        let known: Vec<_> = self.policy.kinds().iter().map(|policy| policy.kind.as_str()).collect();
        let what =
            format!("there is no toolchain '{word}'; known toolchains: {}", known.join(", "));
        let error = ConfigError::new(source, what);
        Err(match suggestion(word, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!(
                "define your own in '{}': [kind.NAME] with tools = [..]",
                user_file_name()
            )),
        })
    }

    /// Returns for which runtimes this agent's calls are decided smartly.
    pub(crate) fn smart_for(&self, agent: Option<&str>) -> launch::Smart {
        let row = agent.and_then(|name| self.agents.iter().find(|row| row.name == name));
        let rule = match self.agent.smart.value {
            SmartMode::Auto => row.map(|row| row.smart).unwrap_or_default(),
            SmartMode::On => launch::Smart { node: true, python: true },
            SmartMode::Off => launch::Smart::default(),
        };
        launch::Smart {
            node: self.agent.node.value.unwrap_or(rule.node),
            python: self.agent.python.value.unwrap_or(rule.python),
        }
    }
}

impl NotifySettings {
    /// Returns the rules for the proxy.
    pub(crate) fn rules(&self) -> NotifyRules {
        let mut rules = NotifyRules {
            command: self.command.value.clone(),
            allowlist: self.allow.value.clone(),
            options: match self.options.value {
                true => CallerOptions::Allowed,
                false => CallerOptions::Refused,
            },
            safe_dirs: self.safe_dirs.value.clone(),
            environment: match self.trim_env.value {
                true => NotifyEnvironment::Trimmed(self.env_allow.value.clone()),
                false => NotifyEnvironment::Full,
            },
            timeout: self.timeout_secs.value.map(Duration::from_secs),
        };
        if !self.enabled.value {
            rules.allowlist.clear();
        }
        rules
    }
}

impl SmartMode {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [SmartMode::Auto, SmartMode::On, SmartMode::Off]
            .into_iter()
            .find(|smart| smart.as_str() == word)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SmartMode::Auto => "auto",
            SmartMode::On => "on",
            SmartMode::Off => "off",
        }
    }
}

/// 15 minutes: longer than a pause between calls, shorter than a break.
const IDLE_STOP_SECS: u64 = 15 * 60;

/// The words in configuration and flags.
const CONFINE: [(Confine, &str); 3] =
    [(Confine::Auto, "auto"), (Confine::Required, "required"), (Confine::Off, "off")];

pub(crate) fn parse_confine(word: &str) -> Option<Confine> {
    CONFINE.iter().find(|(_, known)| *known == word).map(|(confine, _)| *confine)
}

pub(crate) fn confine_word(confine: Confine) -> &'static str {
    CONFINE.iter().find(|(known, _)| *known == confine).map(|(_, word)| *word).unwrap_or_default()
}

/// Returns the values of `--confine`.
pub(crate) fn confine_words() -> Vec<&'static str> {
    CONFINE.iter().map(|(_, word)| *word).collect()
}

/// Returns the path of the user's file for hints.
pub(crate) fn user_file_name() -> String {
    let path = user_file_path().unwrap_or_else(|| "~/.config/aifo/config.toml".into());
    path.display().to_string()
}
