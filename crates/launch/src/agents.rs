//! The table of agents (`spec/agents.md#table`): all that a launcher knows about each.

use std::path::PathBuf;

use aifo_types::env;

/// What an agent is, and what it needs in order to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// What it is called, and asked for by.
    pub name: String,
    /// The program in its image, and arguments that come before the user's.
    pub command: Vec<String>,
    /// Its image, where that is not the one of its name.
    pub image: Option<String>,
    /// For which of its runtimes decisions are smart.
    pub smart: Smart,
    /// Its own python, in its image.
    pub local_python: Option<PathBuf>,
    /// What it keeps between sessions: folders, relative to HOME.
    pub state: Vec<PathBuf>,
    /// Folders below those that are each session's own, and empty: where programs of the agent's meet,
    /// which must not be those of this machine.
    pub private: Vec<PathBuf>,
    /// Files of its settings, relative to HOME, which it gets to read if they are there.
    pub settings: Vec<PathBuf>,
    /// The variables of the user's that it gets, by exact name.
    pub variables: Vec<String>,
    /// The variables that it gets in any case, with their values.
    pub set: Vec<(String, String)>,
    /// The shell that it is told is the user's, in its image.
    pub shell: PathBuf,
}

/// For which runtimes calls are decided smartly: local for the agent's own programs, proxied for the
/// workspace's (`spec/decide.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Smart {
    /// `node`.
    pub node: bool,
    /// `python`.
    pub python: bool,
}

impl Smart {
    const NODE: Smart = Smart { node: true, python: false };
    const PYTHON: Smart = Smart { node: false, python: true };
    const NONE: Smart = Smart { node: false, python: false };

    /// As a shim is told. Said even where both are off, over what our own environment may say.
    pub fn variables(self) -> [(&'static str, &'static str); 3] {
        let switch = |on| if on { "1" } else { "0" };
        [
            (env::SMART, switch(self.node || self.python)),
            (env::SMART_NODE, switch(self.node)),
            (env::SMART_PYTHON, switch(self.python)),
        ]
    }
}

/// A row as it is written down here. Command and image go by the name.
struct Row {
    name: &'static str,
    /// Before the user's arguments.
    args: &'static [&'static str],
    smart: Smart,
    local_python: Option<&'static str>,
    state: &'static [&'static str],
    private: &'static [&'static str],
    settings: &'static [&'static str],
    variables: &'static [&'static str],
    set: &'static [(&'static str, &'static str)],
}

/// Where the images have the python that an agent is installed into.
const VENV_PYTHON: Option<&str> = Some("/opt/venv/bin/python3");

/// Providers that agents for every model know.
const PROVIDERS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_BASE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
];

const ROWS: &[Row] = &[
    Row {
        name: "aider",
        args: &[],
        smart: Smart::PYTHON,
        local_python: VENV_PYTHON,
        state: &[".aider"],
        private: &[],
        settings: &[".aider.conf.yml", ".aider.model.settings.yml"],
        variables: PROVIDERS,
        set: &[
            ("AIDER_CHECK_UPDATE", "false"),
            ("AIDER_ANALYTICS", "false"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ],
    },
    Row {
        name: "claude",
        args: &[],
        smart: Smart::NONE,
        local_python: None,
        state: &[".claude"],
        private: &[],
        settings: &[],
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_MODEL",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
        set: &[
            // Otherwise a file beside the folder would have to be replaced, which a mount cannot be.
            ("CLAUDE_CONFIG_DIR", "/home/coder/.claude"),
            ("DISABLE_AUTOUPDATER", "1"),
            // Root in a container of its own is what it asks for with this.
            ("IS_SANDBOX", "1"),
        ],
    },
    Row {
        name: "codex",
        // Otherwise it leaves a server behind that runs the commands of every codex of this HOME.
        args: &["--no-daemon"],
        smart: Smart::NODE,
        local_python: None,
        state: &[".codex"],
        private: &[".codex/app-server-control", ".codex/app-server-daemon"],
        settings: &[],
        variables: &["CODEX_ACCESS_TOKEN", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
        set: &[],
    },
    Row {
        name: "copilot",
        args: &[],
        smart: Smart::NODE,
        local_python: None,
        state: &[".copilot"],
        private: &[],
        settings: &[],
        variables: &[
            "COPILOT_GITHUB_TOKEN",
            "COPILOT_MODEL",
            "COPILOT_OFFLINE",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_BASE_URL",
            "GH_TOKEN",
            "GITHUB_TOKEN",
        ],
        set: &[("COPILOT_AUTO_UPDATE", "false")],
    },
    Row {
        name: "crush",
        args: &[],
        smart: Smart::NODE,
        local_python: None,
        state: &[".config/crush", ".local/share/crush"],
        private: &[],
        settings: &[],
        variables: PROVIDERS,
        set: &[("CRUSH_DISABLE_METRICS", "1")],
    },
    Row {
        name: "gemini",
        args: &[],
        smart: Smart::NODE,
        local_python: None,
        state: &[".gemini"],
        private: &[],
        settings: &[],
        variables: &[
            "GEMINI_API_KEY",
            "GEMINI_MODEL",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        set: &[],
    },
    Row {
        name: "kimi",
        args: &[],
        smart: Smart::NONE,
        local_python: VENV_PYTHON,
        state: &[".kimi"],
        private: &[],
        settings: &[],
        variables: &["KIMI_API_KEY", "KIMI_BASE_URL", "KIMI_MODEL_NAME"],
        set: &[("KIMI_CLI_NO_AUTO_UPDATE", "1")],
    },
    Row {
        name: "letta",
        args: &[],
        smart: Smart::NODE,
        local_python: None,
        state: &[".letta"],
        private: &[],
        settings: &[],
        variables: &["LETTA_API_KEY", "LETTA_BASE_URL"],
        set: &[("DISABLE_AUTOUPDATER", "1")],
    },
    Row {
        name: "opencode",
        args: &[],
        smart: Smart::NODE,
        local_python: None,
        state: &[".config/opencode", ".local/share/opencode", ".local/state/opencode"],
        private: &[],
        settings: &[],
        variables: PROVIDERS,
        set: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
    },
    Row {
        name: "openhands",
        args: &[],
        smart: Smart::PYTHON,
        local_python: VENV_PYTHON,
        state: &[".openhands"],
        private: &[],
        settings: &[],
        variables: &["LLM_API_KEY", "LLM_BASE_URL", "LLM_MODEL"],
        set: &[("LITELLM_LOCAL_MODEL_COST_MAP", "True")],
    },
    Row {
        name: "qwen",
        args: &[],
        smart: Smart::NODE,
        local_python: None,
        state: &[".qwen"],
        private: &[],
        settings: &[],
        variables: &[
            "ANTHROPIC_API_KEY",
            "DASHSCOPE_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "OPENROUTER_API_KEY",
        ],
        set: &[],
    },
    Row {
        name: "vibe",
        args: &[],
        smart: Smart::NONE,
        local_python: VENV_PYTHON,
        state: &[".vibe"],
        private: &[],
        settings: &[],
        variables: &["MISTRAL_API_KEY"],
        set: &[],
    },
];

/// The agents that we know, by name.
pub fn known_agents() -> Vec<AgentSpec> {
    ROWS.iter().map(Row::spec).collect()
}

impl Row {
    fn spec(&self) -> AgentSpec {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let command = std::iter::once(&self.name).chain(self.args);
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        AgentSpec {
            command: command.map(|word| (*word).to_owned()).collect(),
            smart: self.smart,
            local_python: self.local_python.map(PathBuf::from),
            state: self.state.iter().map(PathBuf::from).collect(),
            private: self.private.iter().map(PathBuf::from).collect(),
            settings: self.settings.iter().map(PathBuf::from).collect(),
            variables: owned(self.variables),
            set: self.set.iter().map(pair).collect(),
            ..AgentSpec::unknown(self.name)
        }
    }
}

impl AgentSpec {
    /// An agent of which nothing is known but its name, which is its command.
    pub fn unknown(name: &str) -> Self {
        AgentSpec {
            name: name.to_owned(),
            command: vec![name.to_owned()],
            image: None,
            smart: Smart::NONE,
            local_python: None,
            state: Vec::new(),
            private: Vec::new(),
            settings: Vec::new(),
            variables: Vec::new(),
            set: Vec::new(),
            shell: PathBuf::from("/bin/bash"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::Component;

    #[test]
    fn the_table_is_sound() {
        let agents = known_agents();
        let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for agent in &agents {
            let below =
                |path: &PathBuf| path.components().all(|c| matches!(c, Component::Normal(_)));
            assert!(!agent.state.is_empty() && agent.state.iter().all(below), "{}", agent.name);
            let of_state = |path: &PathBuf| agent.state.iter().any(|state| path.starts_with(state));
            assert!(
                agent.private.iter().all(|path| below(path) && of_state(path)),
                "{}",
                agent.name
            );
            let ours = |name: &str| name.starts_with(env::PREFIX);
            assert!(!agent.variables.iter().any(|name| ours(name) || name.contains('*')));
            assert!(!agent.set.iter().any(|(name, _)| ours(name)));
        }
    }

    #[test]
    fn runtimes_as_required() {
        let smart =
            |name: &str| known_agents().into_iter().find(|it| it.name == name).unwrap().smart;
        for name in ["letta", "codex", "crush", "opencode"] {
            assert_eq!(smart(name), Smart::NODE, "{name}");
        }
        for name in ["aider", "openhands"] {
            assert_eq!(smart(name), Smart::PYTHON, "{name}");
        }
    }
}
