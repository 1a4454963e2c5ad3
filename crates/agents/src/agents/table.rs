//! The rows of the table of agents.

use std::path::PathBuf;
use std::time::Duration;

use aifo_policy::ProjectNames;

use super::acp::{AcpProfile, ChunkMode, MissingFileReply};
use super::hosts::{self, HostRows};
use super::keys::{self, KeyRow};
use super::state::{self, CopiedFile, CopiedState};
use super::{AgentSpec, SmartRuntimes};

/// A row with static data. Command and image follow from the name.
struct AgentRow {
    name: &'static str,
    /// Arguments before the user's.
    args: &'static [&'static str],
    smart: SmartRuntimes,
    /// Whether its programs meet on a port of localhost.
    listens: bool,
    local_python: Option<&'static str>,
    state: &'static [&'static str],
    private: &'static [&'static str],
    copied: CopiedState,
    settings: &'static [&'static str],
    project: ProjectNames,
    variables: &'static [&'static str],
    keys: &'static [KeyRow],
    set: &'static [(&'static str, &'static str)],
    hosts: HostRows,
    acp: Option<AcpRow>,
}

/// The ACP part of a row. All known agents send deltas.
struct AcpRow {
    command: &'static [&'static str],
    fs: bool,
    terminal: bool,
    missing_file: MissingFileReply,
    allow_option: Option<&'static str>,
    initialize_secs: u64,
    kill_on_eof: bool,
}

impl AcpRow {
    /// The defaults: nothing served, no oddities.
    const fn plain(command: &'static [&'static str]) -> Self {
        AcpRow {
            command,
            fs: false,
            terminal: false,
            missing_file: MissingFileReply::Error,
            allow_option: None,
            initialize_secs: 60,
            kill_on_eof: false,
        }
    }
}

/// The python of images that install their agent into a virtual environment.
const VENV_PYTHON: Option<&str> = Some("/opt/venv/bin/python3");

/// Variables of agents that support every provider.
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

const ROWS: &[AgentRow] = &[
    AgentRow {
        name: "aider",
        args: &[],
        smart: SmartRuntimes::PYTHON,
        listens: false,
        local_python: VENV_PYTHON,
        state: &[".aider"],
        private: &[],
        copied: state::AIDER,
        settings: &[".aider.conf.yml", ".aider.model.settings.yml"],
        project: ProjectNames {
            data: &[
                ".aider.chat.history.md",
                ".aider.input.history",
                ".aider.llm.history",
                ".aider.tags.cache.*",
            ],
            ..ProjectNames::of(&["CONVENTIONS.md"])
        },
        variables: PROVIDERS,
        keys: keys::AIDER,
        set: &[
            ("AIDER_CHECK_UPDATE", "false"),
            ("AIDER_ANALYTICS", "false"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ],
        hosts: hosts::AIDER,
        acp: None,
    },
    AgentRow {
        name: "claude",
        args: &[],
        smart: SmartRuntimes::NONE,
        listens: false,
        local_python: None,
        state: &[".claude"],
        private: &["/tmp/cc-daemon-UID", "/tmp/cc-socks", "/tmp/cc-socks-UID"],
        copied: state::CLAUDE,
        settings: &[],
        project: ProjectNames::of(&["CLAUDE.md"]),
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_MODEL",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ],
        keys: keys::CLAUDE,
        set: &[
            // Otherwise it replaces a file beside the directory, which a mount does not allow.
            ("CLAUDE_CONFIG_DIR", "/home/coder/.claude"),
            ("DISABLE_AUTOUPDATER", "1"),
            // Otherwise it refuses to run as root.
            ("IS_SANDBOX", "1"),
        ],
        hosts: hosts::CLAUDE,
        acp: Some(AcpRow::plain(&["claude-agent-acp"])),
    },
    AgentRow {
        name: "codex",
        // Otherwise it leaves a server running that executes the commands of every codex of this
        // HOME.
        args: &["--no-daemon"],
        smart: SmartRuntimes::NODE,
        listens: false,
        local_python: None,
        state: &[".codex"],
        private: &[".codex/app-server-control", ".codex/app-server-daemon"],
        copied: state::CODEX,
        settings: &[],
        project: ProjectNames::of(&["AGENTS.md", "AGENTS.override.md"]),
        variables: &["CODEX_ACCESS_TOKEN", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
        keys: keys::CODEX,
        set: &[],
        hosts: hosts::CODEX,
        acp: Some(AcpRow {
            // Without the policy it requests no permissions, as the container is its sandbox.
            kill_on_eof: true,
            ..AcpRow::plain(&["codex-acp", "-c", "approval_policy=untrusted"])
        }),
    },
    AgentRow {
        name: "copilot",
        args: &[],
        smart: SmartRuntimes::NODE,
        listens: false,
        local_python: None,
        state: &[".copilot"],
        private: &[],
        copied: state::COPILOT,
        settings: &[],
        project: ProjectNames::of(&["AGENTS.md"]),
        variables: &[
            "COPILOT_GITHUB_TOKEN",
            "COPILOT_MODEL",
            "COPILOT_OFFLINE",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_BASE_URL",
            "GH_TOKEN",
            "GITHUB_TOKEN",
        ],
        keys: keys::COPILOT,
        set: &[("COPILOT_AUTO_UPDATE", "false")],
        hosts: hosts::COPILOT_CLI,
        acp: Some(AcpRow::plain(&["copilot", "--acp"])),
    },
    AgentRow {
        name: "crush",
        args: &[],
        smart: SmartRuntimes::NODE,
        listens: false,
        local_python: None,
        state: &[".config/crush", ".local/share/crush"],
        private: &[],
        copied: state::CRUSH,
        settings: &[],
        project: ProjectNames {
            data: &[".crush/crush.db*", ".crush/init", ".crush/logs"],
            ..ProjectNames::of(&["crush.json", "CRUSH.md"])
        },
        variables: PROVIDERS,
        keys: &[],
        set: &[("CRUSH_DISABLE_METRICS", "1")],
        hosts: hosts::CRUSH,
        acp: None,
    },
    AgentRow {
        name: "gemini",
        args: &[],
        smart: SmartRuntimes::NODE,
        listens: false,
        local_python: None,
        state: &[".gemini"],
        private: &[],
        copied: state::GEMINI,
        settings: &[],
        project: ProjectNames::of(&["GEMINI.md"]),
        variables: &[
            "GEMINI_API_KEY",
            "GEMINI_MODEL",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        keys: keys::GEMINI,
        set: &[],
        hosts: hosts::GEMINI,
        acp: Some(AcpRow {
            // It reads a file before it writes it, and cannot create one after an error.
            fs: true,
            missing_file: MissingFileReply::Empty,
            ..AcpRow::plain(&["gemini", "--acp"])
        }),
    },
    AgentRow {
        name: "kimi",
        args: &[],
        smart: SmartRuntimes::NONE,
        listens: false,
        local_python: VENV_PYTHON,
        state: &[".kimi"],
        private: &[],
        copied: state::KIMI,
        settings: &[],
        project: ProjectNames::of(&["AGENTS.md"]),
        variables: &["KIMI_API_KEY", "KIMI_BASE_URL", "KIMI_MODEL_NAME"],
        keys: keys::KIMI,
        set: &[("KIMI_CLI_NO_AUTO_UPDATE", "1")],
        hosts: hosts::KIMI,
        acp: Some(AcpRow {
            // Without a terminal it has no shell.
            fs: true,
            terminal: true,
            kill_on_eof: true,
            ..AcpRow::plain(&["kimi", "acp"])
        }),
    },
    AgentRow {
        name: "letta",
        args: &[],
        smart: SmartRuntimes::NODE,
        listens: false,
        local_python: None,
        state: &[".letta"],
        private: &[],
        copied: state::LETTA,
        settings: &[],
        project: ProjectNames::of(&["AGENTS.md"]),
        variables: &["LETTA_API_KEY", "LETTA_BASE_URL"],
        keys: &[],
        set: &[("DISABLE_AUTOUPDATER", "1")],
        hosts: hosts::LETTA,
        acp: None,
    },
    AgentRow {
        name: "opencode",
        args: &[],
        smart: SmartRuntimes::NODE,
        listens: true,
        local_python: None,
        state: &[".config/opencode", ".local/share/opencode", ".local/state/opencode"],
        private: &[],
        copied: state::OPENCODE,
        settings: &[],
        project: ProjectNames::of(&["AGENTS.md", "CONTEXT.md", "opencode.json*"]),
        variables: PROVIDERS,
        keys: keys::OPENCODE,
        set: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
        hosts: hosts::OPENCODE,
        acp: Some(AcpRow {
            // It writes files by itself, whatever the reply.
            kill_on_eof: true,
            ..AcpRow::plain(&["opencode", "acp"])
        }),
    },
    AgentRow {
        name: "openhands",
        args: &[],
        smart: SmartRuntimes::PYTHON,
        listens: false,
        local_python: VENV_PYTHON,
        state: &[".openhands"],
        private: &[],
        copied: state::OPENHANDS,
        settings: &[],
        project: ProjectNames::of(&["AGENTS.md"]),
        variables: &["LLM_API_KEY", "LLM_BASE_URL", "LLM_MODEL"],
        keys: keys::OPENHANDS,
        set: &[("LITELLM_LOCAL_MODEL_COST_MAP", "True")],
        hosts: hosts::OPENHANDS,
        acp: Some(AcpRow {
            // The second option that allows once lowers its later checks.
            allow_option: Some("accept"),
            initialize_secs: 120,
            ..AcpRow::plain(&["openhands", "acp", "--override-with-envs"])
        }),
    },
    AgentRow {
        name: "qwen",
        args: &[],
        smart: SmartRuntimes::NODE,
        listens: false,
        local_python: None,
        state: &[".qwen"],
        private: &[],
        copied: state::QWEN,
        settings: &[],
        project: ProjectNames::of(&["QWEN.md"]),
        variables: &[
            "ANTHROPIC_API_KEY",
            "DASHSCOPE_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "OPENROUTER_API_KEY",
        ],
        keys: keys::QWEN,
        set: &[],
        hosts: hosts::QWEN,
        acp: Some(AcpRow {
            // Served files would include its own in /tmp, so none are. The second option that
            // allows once changes its mode.
            allow_option: Some("proceed_once"),
            ..AcpRow::plain(&["qwen", "--acp"])
        }),
    },
    AgentRow {
        name: "vibe",
        args: &[],
        smart: SmartRuntimes::NONE,
        listens: false,
        local_python: VENV_PYTHON,
        state: &[".vibe"],
        private: &[],
        copied: state::VIBE,
        settings: &[],
        project: ProjectNames::of(&["AGENTS.md"]),
        variables: &["MISTRAL_API_KEY"],
        keys: &[],
        set: &[],
        hosts: hosts::VIBE,
        acp: Some(AcpRow { initialize_secs: 120, ..AcpRow::plain(&["vibe-acp"]) }),
    },
];

/// Returns the built-in rows, sorted by name.
pub fn known_agents() -> Vec<AgentSpec> {
    ROWS.iter().map(AgentRow::spec).collect()
}

impl AgentRow {
    fn spec(&self) -> AgentSpec {
        let command = std::iter::once(&self.name).chain(self.args);
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        AgentSpec {
            command: command.map(|word| (*word).to_owned()).collect(),
            smart: self.smart,
            listens: self.listens,
            local_python: self.local_python.map(PathBuf::from),
            state: self.state.iter().map(PathBuf::from).collect(),
            credentials: self.copied.credentials.as_ref().map(CopiedFile::file),
            import: self.copied.import.iter().map(CopiedFile::file).collect(),
            conversations: self.copied.conversations.iter().map(PathBuf::from).collect(),
            private: self.private.iter().map(PathBuf::from).collect(),
            settings: self.settings.iter().map(PathBuf::from).collect(),
            project: self.project,
            variables: words(self.variables),
            keys: self.keys,
            set: self.set.iter().map(pair).collect(),
            hosts: self.hosts.hosts(),
            acp: self.acp.as_ref().map(AcpRow::profile),
            ..AgentSpec::unknown(self.name)
        }
    }
}

impl AcpRow {
    fn profile(&self) -> AcpProfile {
        AcpProfile {
            fs: self.fs,
            terminal: self.terminal,
            missing_file: self.missing_file,
            stream: ChunkMode::Delta,
            allow_option: self.allow_option.map(str::to_owned),
            initialize: Duration::from_secs(self.initialize_secs),
            kill_on_eof: self.kill_on_eof,
            ..AcpProfile::plain(words(self.command))
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
