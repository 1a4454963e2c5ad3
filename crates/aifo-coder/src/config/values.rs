//! Every value a session has, and what they are when nobody says anything.

use std::path::PathBuf;
use std::time::Duration;

use aifo_launch::{self as launch, AgentSpec, ConfinementMode, Limits, known_agents};
use aifo_policy::{
    CallerOptions, Fallback, Forwarding, NotifyEnvironment, NotifyRules, PermissionRules, Policy,
    Stated,
};
use aifo_types::{Endpoint, Kind};

use crate::config::containers::Containers;
use crate::config::error::{ConfigError, suggestion};
use crate::config::file::user_file_path;
use crate::config::source::{Source, Sourced};
use crate::config::toolchains::Toolchains;

/// What holds.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) toolchains: Sourced<Toolchains>,
    /// How long a sidecar that was started on demand may have nothing to do; `None`: for ever.
    pub(crate) idle_stop_secs: Sourced<Option<u64>>,
    /// `None`: a tool may run as long as it likes.
    pub(crate) max_secs: Sourced<Option<u64>>,
    pub(crate) max_executions: Sourced<usize>,
    pub(crate) verbose: Sourced<bool>,
    /// `None`: a unix socket in the session's folder.
    pub(crate) listen: Sourced<Option<Endpoint>>,
    /// The agent's own python; `None`: the system's.
    pub(crate) local_python: Sourced<Option<PathBuf>>,
    pub(crate) confine: Sourced<ConfinementMode>,
    pub(crate) containers: Containers,
    pub(crate) policy: Policy,
    /// How `policy` differs from ours.
    pub(crate) tool_rules: Vec<ToolRule>,
    pub(crate) forwarding: Forwarding,
    /// How `forwarding` differs from ours.
    pub(crate) env_rules: Vec<EnvRule>,
    pub(crate) notify: Notify,
    pub(crate) agent: Agent,
    /// The table of agents, by name.
    pub(crate) agents: Vec<AgentSpec>,
    /// Which rows of it differ from ours.
    pub(crate) agent_rows: Vec<Sourced<String>>,
    /// What an agent is permitted that asks.
    pub(crate) permissions: PermissionRules<Source>,
}

/// A change of a kind's allowlist.
#[derive(Clone, Debug)]
pub(crate) struct ToolRule {
    pub(crate) kind: Kind,
    pub(crate) effect: Effect,
    pub(crate) tools: Sourced<Vec<String>>,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Deny,
}

/// A change of which variables a tool gets.
#[derive(Clone, Debug)]
pub(crate) struct EnvRule {
    pub(crate) effect: EnvEffect,
    /// Values are nobody's to print.
    pub(crate) names: Sourced<Vec<String>>,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvEffect {
    Allow,
    Deny,
    Set,
}

/// Which commands may notify the user.
#[derive(Clone, Debug)]
pub(crate) struct Notify {
    pub(crate) enabled: Sourced<bool>,
    pub(crate) command: Sourced<Option<Vec<String>>>,
    pub(crate) allow: Sourced<Vec<String>>,
    pub(crate) options: Sourced<bool>,
    pub(crate) safe_dirs: Sourced<Vec<PathBuf>>,
    pub(crate) trim_env: Sourced<bool>,
    pub(crate) env_allow: Sourced<Vec<String>>,
    /// `None`: the tools' own limit.
    pub(crate) timeout_secs: Sourced<Option<u64>>,
}

/// Which calls of a runtime the agent's own copy takes.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) smart: Sourced<Smart>,
    /// Over `smart`, for node alone.
    pub(crate) node: Sourced<Option<bool>>,
    /// Over `smart`, for python alone.
    pub(crate) python: Sourced<Option<bool>>,
}

/// The rule for both runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Smart {
    /// As the table of agents says.
    Auto,
    On,
    Off,
}

impl Config {
    /// What holds when nobody says anything.
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
            confine: Sourced::builtin(ConfinementMode::Auto),
            containers: Containers::builtin(),
            policy: Policy::builtin(),
            tool_rules: Vec::new(),
            forwarding: Forwarding::builtin(),
            env_rules: Vec::new(),
            notify: Notify {
                enabled: Sourced::builtin(true),
                command: Sourced::builtin(notify.command),
                allow: Sourced::builtin(notify.allowlist),
                options: Sourced::builtin(notify.options == CallerOptions::Allowed),
                safe_dirs: Sourced::builtin(notify.safe_dirs),
                trim_env: Sourced::builtin(false),
                env_allow: Sourced::builtin(Vec::new()),
                timeout_secs: Sourced::builtin(None),
            },
            agent: Agent {
                smart: Sourced::builtin(Smart::Auto),
                node: Sourced::builtin(None),
                python: Sourced::builtin(None),
            },
            agents: known_agents(),
            agent_rows: Vec::new(),
            permissions: PermissionRules::new(Stated {
                what: Fallback::Ask,
                from: Source::BuiltIn,
            }),
        }
    }

    /// The kind that a word names, be it an alias.
    pub(crate) fn kind_named(&self, word: &str, source: &Source) -> Result<Kind, ConfigError> {
        if let Some(found) = self.policy.kind_named(word) {
            return Ok(found.kind.clone());
        }
        let known: Vec<_> = self.policy.kinds().iter().map(|policy| policy.kind.as_str()).collect();
        let what = format!("there is no toolchain '{word}'; known are: {}", known.join(", "));
        let error = ConfigError::new(source, what);
        Err(match suggestion(word, known) {
            Some(meant) => error.hint(format!("did you mean '{meant}'?")),
            None => error.hint(format!(
                "one of your own is made in '{}': [kind.NAME] with tools = [..]",
                user_file_name()
            )),
        })
    }

    /// Whether `node` and whether `python` calls are decided smartly for this agent.
    pub(crate) fn smart_for(&self, agent: Option<&str>) -> launch::SmartRuntimes {
        let row = agent.and_then(|name| self.agents.iter().find(|row| row.name == name));
        let rule = match self.agent.smart.value {
            Smart::Auto => row.map(|row| row.smart).unwrap_or_default(),
            Smart::On => launch::SmartRuntimes { node: true, python: true },
            Smart::Off => launch::SmartRuntimes::default(),
        };
        launch::SmartRuntimes {
            node: self.agent.node.value.unwrap_or(rule.node),
            python: self.agent.python.value.unwrap_or(rule.python),
        }
    }
}

impl Notify {
    /// What the proxy judges by.
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

impl Smart {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Smart::Auto, Smart::On, Smart::Off].into_iter().find(|smart| smart.as_str() == word)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Smart::Auto => "auto",
            Smart::On => "on",
            Smart::Off => "off",
        }
    }
}

/// A quarter of an hour: longer than a pause to think, shorter than one to eat.
const IDLE_STOP_SECS: u64 = 15 * 60;

/// How configuration and flags spell each.
const CONFINE: [(ConfinementMode, &str); 3] = [
    (ConfinementMode::Auto, "auto"),
    (ConfinementMode::Required, "required"),
    (ConfinementMode::Off, "off"),
];

pub(crate) fn parse_confine(word: &str) -> Option<ConfinementMode> {
    CONFINE.iter().find(|(_, known)| *known == word).map(|(confine, _)| *confine)
}

pub(crate) fn confine_word(confine: ConfinementMode) -> &'static str {
    CONFINE.iter().find(|(known, _)| *known == confine).map(|(_, word)| *word).unwrap_or_default()
}

/// What `--confine` takes.
pub(crate) fn confine_words() -> Vec<&'static str> {
    CONFINE.iter().map(|(_, word)| *word).collect()
}

/// The user's own file as a hint names it.
pub(crate) fn user_file_name() -> String {
    let path = user_file_path().unwrap_or_else(|| "~/.config/aifo/config.toml".into());
    path.display().to_string()
}
