//! How each agent is pointed at a model, for one errand without a user.

use serde_json::{Value, json};

use super::Script;
use super::server::{MODEL, TEXT_MODEL};

/// An agent that is known to work with a [`FakeModel`](super::FakeModel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
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

/// All that an agent is started with, to do one errand with every permission and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headless {
    /// Its program's name, and the arguments.
    pub command: Vec<String>,
    /// Variables by name.
    pub environment: Vec<(&'static str, String)>,
    /// Files by their path in HOME.
    pub files: Vec<(&'static str, String)>,
    /// What it reads on standard input. That ends then: some agents wait for the end, and take all of
    /// it for a part of the errand.
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

    /// Its name, which is its program's as well.
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

    /// What it is started with so that it follows `script` of the model at `url`, which has no path.
    pub fn headless(self, url: &str, script: &Script) -> Headless {
        let v1 = format!("{url}/v1");
        let agent = Headless::new(self.name());
        match self {
            Agent::Codex => agent
                .args(["exec", "--skip-git-repo-check"])
                .args(["--dangerously-bypass-approvals-and-sandbox", ERRAND])
                .variable("FAKE_KEY", KEY)
                .file(".codex/config.toml", codex(&v1)),
            Agent::Opencode => {
                agent.args(["run", ERRAND]).json(".config/opencode/opencode.json", &opencode(&v1))
            }
            Agent::Aider => agent
                .args(["--model", &format!("openai/{TEXT_MODEL}"), "--edit-format", "diff"])
                .args(["--no-git", "--no-fancy-input", "--no-pretty", "--no-stream"])
                .args(["--no-check-update", "--no-show-model-warnings", "--no-analytics"])
                .args(["--no-show-release-notes", "--map-tokens", "0"])
                .variable("OPENAI_API_BASE", v1)
                .variable("OPENAI_API_KEY", KEY)
                .variable("LITELLM_LOCAL_MODEL_COST_MAP", "True")
                // Each command takes a word of the user, a yes to run it, and one to share what it
                // printed, if that is anything. All of them are "y", so that none is out of place.
                .stdin("y\n".repeat(3 * script.commands() + 1)),
            Agent::Gemini => agent
                .args(["--prompt", ERRAND, "--yolo", "--skip-trust", "--model", "gemini-2.5-flash"])
                .variable("GOOGLE_GEMINI_BASE_URL", url)
                .variable("GEMINI_API_KEY", KEY)
                .json(
                    ".gemini/settings.json",
                    &json!({
                        "security": {"auth": {"selectedType": "gemini-api-key"}},
                        "privacy": {"usageStatisticsEnabled": false},
                        "telemetry": {"enabled": false},
                        "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
                    }),
                ),
            Agent::Openhands => agent
                .args(["--headless", "--override-with-envs", "--task", ERRAND])
                .variable("LLM_MODEL", format!("openai/{MODEL}"))
                .variable("LLM_BASE_URL", v1)
                .variable("LLM_API_KEY", KEY)
                .variable("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            Agent::Qwen => agent
                .args(["--prompt", ERRAND, "--yolo", "--auth-type", "openai", "--model", MODEL])
                .variable("OPENAI_BASE_URL", v1)
                .variable("OPENAI_API_KEY", KEY)
                .variable("OPENAI_MODEL", MODEL),
            Agent::Claude => agent
                .args(["--print", ERRAND, "--dangerously-skip-permissions"])
                .variable("ANTHROPIC_BASE_URL", url)
                .variable("ANTHROPIC_API_KEY", KEY)
                .variable("IS_SANDBOX", "1")
                .variable("DISABLE_AUTOUPDATER", "1")
                .variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            Agent::Copilot => agent
                .args(["--prompt", ERRAND, "--allow-all-tools"])
                .variable("COPILOT_PROVIDER_BASE_URL", v1)
                .variable("COPILOT_PROVIDER_API_KEY", KEY)
                .variable("COPILOT_MODEL", MODEL)
                .variable("COPILOT_OFFLINE", "true"),
            Agent::Kimi => agent
                .args(["--print", "--yolo", "--command", ERRAND])
                .file(".kimi/config.toml", kimi(&v1)),
            Agent::Vibe => agent
                .args(["--prompt", ERRAND, "--auto-approve"])
                .variable("FAKE_KEY", KEY)
                .file(".vibe/config.toml", vibe(&v1)),
        }
    }
}

impl Headless {
    fn new(program: &str) -> Self {
        let (environment, files, stdin) = (Vec::new(), Vec::new(), String::new());
        Headless { command: vec![program.to_owned()], environment, files, stdin }
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

/// What the agent is asked. The model does what its script says, whatever that is.
const ERRAND: &str = "Please do as the script says.";

/// What stands for a secret.
const KEY: &str = "sk-of-nobody";

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

fn opencode(v1: &str) -> Value {
    json!({
        "model": format!("fake/{MODEL}"),
        "autoupdate": false,
        "share": "disabled",
        "permission": "allow",
        "provider": {"fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": v1, "apiKey": KEY},
            "models": {MODEL: {"name": MODEL, "tool_call": true}},
        }},
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
