//! How each agent is configured to use a model.

use serde_json::{Value, json};

use super::Script;
use super::answers::{MODEL, TEXT_MODEL};

/// An agent that works with a [`FakeModel`](super::FakeModel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Agent {
    Codex,
    Opencode,
    Aider,
    Gemini,
    Openhands,
    Qwen,
    Claude,
    Copilot,
    Kimi,
    Vibe,
}

/// The command, environment and files of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The program's name and the arguments.
    pub command: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(&'static str, String)>,
    /// Files by their path in HOME.
    pub files: Vec<(&'static str, String)>,
    /// The content of stdin, if that is not a terminal; then its end, which some agents wait for.
    /// They take all of it as part of the prompt.
    pub stdin: String,
}

impl Agent {
    /// All of them.
    pub const ALL: [Agent; 10] = [
        Agent::Codex,
        Agent::Opencode,
        Agent::Aider,
        Agent::Gemini,
        Agent::Openhands,
        Agent::Qwen,
        Agent::Claude,
        Agent::Copilot,
        Agent::Kimi,
        Agent::Vibe,
    ];

    /// The name of the agent and its program.
    pub fn name(self) -> &'static str {
        match self {
            Agent::Codex => "codex",
            Agent::Opencode => "opencode",
            Agent::Aider => "aider",
            Agent::Gemini => "gemini",
            Agent::Openhands => "openhands",
            Agent::Qwen => "qwen",
            Agent::Claude => "claude",
            Agent::Copilot => "copilot",
            Agent::Kimi => "kimi",
            Agent::Vibe => "vibe",
        }
    }

    /// Starts a task with every permission, which ends when it is done; follows `script` of the
    /// model at `url`, which has no path.
    ///
    /// codex, opencode, gemini, qwen, claude, copilot and vibe print only the model's last text on
    /// stdout, or print it last; aider, openhands and kimi print much more.
    pub fn headless(self, url: &str, script: &Script) -> Start {
        let agent = self.interactive(url);
        match self {
            Agent::Codex => agent.args(["exec", "--skip-git-repo-check", PROMPT]),
            Agent::Opencode => agent.args(["run", PROMPT]),
            // Each command needs confirmations: to run it, and to share its output if there is any.
            // All answers are "y", so that none is misplaced.
            Agent::Aider => agent.stdin("y\n".repeat(3 * script.commands() + 1)),
            Agent::Openhands => agent.args(["--headless", "--task", PROMPT]),
            Agent::Claude => agent.args(["--print", PROMPT]),
            Agent::Kimi => agent.args(["--print", "--command", PROMPT]),
            Agent::Gemini | Agent::Qwen | Agent::Copilot | Agent::Vibe => {
                agent.args(["--prompt", PROMPT])
            }
        }
    }

    /// Starts on a terminal, with the model at `url`.
    pub fn interactive(self, url: &str) -> Start {
        let v1 = format!("{url}/v1");
        let agent = Start::new(self.name());
        match self {
            Agent::Codex => agent
                // Otherwise a server remains that runs the commands of every codex of this HOME.
                .args(["--no-daemon", "--dangerously-bypass-approvals-and-sandbox"])
                .variable("FAKE_KEY", KEY)
                .file(".codex/config.toml", codex(&v1)),
            Agent::Opencode => agent.json(OPENCODE, &opencode(&v1, "allow")),
            Agent::Aider => agent
                .args(["--model", &format!("openai/{TEXT_MODEL}"), "--edit-format", "diff"])
                .args(["--no-git", "--no-fancy-input", "--no-pretty", "--no-stream"])
                .args(["--no-check-update", "--no-show-model-warnings", "--no-analytics"])
                .args(["--no-show-release-notes", "--map-tokens", "0"])
                .variable("OPENAI_API_BASE", v1)
                .variable("OPENAI_API_KEY", KEY)
                .variable("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            Agent::Gemini => agent
                .args(["--yolo", "--skip-trust", "--model", "gemini-2.5-flash"])
                .variable("GOOGLE_GEMINI_BASE_URL", url)
                .variable("GEMINI_API_KEY", KEY)
                .json(".gemini/settings.json", &gemini()),
            Agent::Openhands => agent
                .args(["--override-with-envs"])
                .variable("LLM_MODEL", format!("openai/{MODEL}"))
                .variable("LLM_BASE_URL", v1)
                .variable("LLM_API_KEY", KEY)
                .variable("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            Agent::Qwen => agent
                .args(["--yolo", "--auth-type", "openai", "--model", MODEL])
                .variable("OPENAI_BASE_URL", v1)
                .variable("OPENAI_API_KEY", KEY)
                .variable("OPENAI_MODEL", MODEL),
            Agent::Claude => agent
                .args(["--dangerously-skip-permissions"])
                .variable("ANTHROPIC_BASE_URL", url)
                .variable("ANTHROPIC_API_KEY", KEY)
                // Otherwise root cannot give every permission at once.
                .variable("IS_SANDBOX", "1")
                .variable("DISABLE_AUTOUPDATER", "1")
                .variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .json(".claude.json", &claude()),
            Agent::Copilot => agent
                .args(["--allow-all-tools"])
                .variable("COPILOT_PROVIDER_BASE_URL", v1)
                .variable("COPILOT_PROVIDER_API_KEY", KEY)
                .variable("COPILOT_MODEL", MODEL)
                .variable("COPILOT_OFFLINE", "true"),
            Agent::Kimi => agent.args(["--yolo"]).file(".kimi/config.toml", kimi(&v1)),
            Agent::Vibe => agent
                .args(["--auto-approve"])
                .variable("FAKE_KEY", KEY)
                .file(".vibe/config.toml", vibe(&v1)),
        }
    }

    /// Starts a task like [`headless`](Agent::headless), as a user has it who sets a key and a base URL in
    /// the environment; `None` for agents that take no base URL there.
    pub fn with_key(self, url: &str, script: &Script) -> Option<Start> {
        let mut start = self.headless(url, script);
        let v1 = format!("{url}/v1");
        match self {
            Agent::Codex => {
                start.files.clear();
                start = start.args(["--model", MODEL]);
                start.environment =
                    vec![("OPENAI_API_KEY", KEY.to_owned()), ("OPENAI_BASE_URL", v1)];
            }
            Agent::Opencode => {
                start.files.clear();
                let keys = format!("[keys.openai]\nurl = '{v1}'\nenv = 'OPENAI_API_KEY'\n");
                start = start
                    .args(["--model", &format!("openai/{MODEL}")])
                    .file(".config/aifo/config.toml", keys)
                    .variable("OPENAI_API_KEY", KEY)
                    .json(OPENCODE, &opencode_of_openai());
            }
            Agent::Kimi => {
                start.files.clear();
                start = start
                    .variable("KIMI_API_KEY", KEY)
                    .variable("KIMI_BASE_URL", v1)
                    .variable("KIMI_MODEL_NAME", MODEL);
            }
            // The launcher selects the login by key.
            Agent::Gemini => start.files.clear(),
            Agent::Vibe => return None,
            _ => {}
        }
        Some(start)
    }

    /// Starts with ACP and asks before commands; `None` for agents without ACP. The command is only
    /// the name: the launcher adds the arguments.
    pub fn asking(self, url: &str) -> Option<Start> {
        let v1 = format!("{url}/v1");
        let mut agent = self.interactive(url);
        agent.command.truncate(1);
        Some(match self {
            Agent::Aider => return None,
            Agent::Opencode => agent.json(OPENCODE, &opencode(&v1, "ask")),
            // Neither accepts variables or a provider key as a login.
            Agent::Kimi => {
                agent.json(".kimi/credentials/kimi-code.json", &json!({"access_token": KEY}))
            }
            Agent::Openhands => agent.json(".openhands/agent_settings.json", &openhands(&v1)),
            _ => agent,
        })
    }
}

impl Start {
    fn new(program: &str) -> Self {
        let (environment, files, stdin) = (Vec::new(), Vec::new(), String::new());
        Start { command: vec![program.to_owned()], environment, files, stdin }
    }

    fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.command.extend(args.map(str::to_owned));
        self
    }

    fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    fn file(mut self, path: &'static str, text: String) -> Self {
        self.files.push((path, text));
        self
    }

    fn json(self, path: &'static str, document: &Value) -> Self {
        self.file(path, document.to_string())
    }

    fn stdin(mut self, text: String) -> Self {
        self.stdin = text;
        self
    }
}

/// The prompt. The model follows its script, whatever the prompt is.
const PROMPT: &str = "Please do as the script says.";

/// A placeholder for a secret, in lower case.
pub const KEY: &str = "sk-of-nobody";

fn codex(v1: &str) -> String {
    format!(
        r#"model = "{MODEL}"
model_provider = "fake"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{v1}"
env_key = "FAKE_KEY"
wire_api = "responses"
"#
    )
}

/// The path of opencode's settings.
const OPENCODE: &str = ".config/opencode/opencode.json";

fn opencode(v1: &str, permission: &str) -> Value {
    json!({
        "model": format!("fake/{MODEL}"),
        "autoupdate": false,
        "share": "disabled",
        "permission": permission,
        "provider": {"fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": v1, "apiKey": KEY},
            "models": {MODEL: {"name": MODEL, "tool_call": true}},
        }},
    })
}

/// A model of a provider that it has built in, whose base URL is the launcher's.
fn opencode_of_openai() -> Value {
    json!({
        "autoupdate": false,
        "share": "disabled",
        "permission": "allow",
        "provider": {"openai": {"models": {MODEL: {"name": MODEL, "tool_call": true}}}},
    })
}

fn gemini() -> Value {
    json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "general": {"enableAutoUpdate": false},
    })
}

/// The answers to its first-start questions.
fn claude() -> Value {
    // It identifies a key by its last 20 characters.
    let key = &KEY[KEY.len().saturating_sub(20)..];
    json!({
        "hasCompletedOnboarding": true,
        "bypassPermissionsModeAccepted": true,
        "customApiKeyResponses": {"approved": [key], "rejected": []},
    })
}

fn openhands(v1: &str) -> Value {
    let model = format!("openai/{MODEL}");
    json!({
        "kind": "Agent",
        "llm": {"model": model, "base_url": v1, "api_key": KEY, "usage_id": "agent"},
    })
}

fn kimi(v1: &str) -> String {
    format!(
        r#"default_model = "fake"

[models.fake]
provider = "fake"
model = "{MODEL}"
max_context_size = 100000

[providers.fake]
type = "openai_legacy"
base_url = "{v1}"
api_key = "{KEY}"
"#
    )
}

fn vibe(v1: &str) -> String {
    format!(
        r#"active_model = "fake"
enable_auto_update = false
enable_telemetry = false
enable_update_checks = false

[[providers]]
name = "fake"
api_base = "{v1}"
api_key_env_var = "FAKE_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "{MODEL}"
provider = "fake"
alias = "fake"
"#
    )
}
