//! The hosts of each agent, by purpose (`spec/network.md#agents`).
//!
//! Each list is what the agent of the image, or its maker's list for firewalls, names. Hosts at which any
//! account can store files for others are left out.

use aifo_network::AgentHosts;

/// [`AgentHosts`] as static data.
pub(super) struct HostRows {
    model: &'static [&'static [&'static str]],
    telemetry: &'static [&'static str],
    update: &'static [&'static str],
}

impl HostRows {
    pub(super) fn hosts(&self) -> AgentHosts {
        let rules = |hosts: &[&str]| -> Vec<String> {
            // Every one is reached with TLS only.
            hosts.iter().map(|host| format!("{host}:443")).collect()
        };
        AgentHosts {
            model: rules(&self.model.concat()),
            telemetry: rules(self.telemetry),
            update: rules(self.update),
        }
    }
}

const ANTHROPIC: &[&str] = &["api.anthropic.com", "claude.ai", "platform.claude.com"];
const OPENAI: &[&str] = &["api.openai.com", "auth.openai.com", "chatgpt.com"];
const GOOGLE: &[&str] = &["generativelanguage.googleapis.com"];
const COPILOT: &[&str] = &[
    "api.github.com",
    "api.githubcopilot.com",
    "api.business.githubcopilot.com",
    "api.enterprise.githubcopilot.com",
    "api.individual.githubcopilot.com",
    "github.com",
];
/// Further providers of agents that support every one.
const OTHERS: &[&str] =
    &["api.deepseek.com", "api.groq.com", "api.mistral.ai", "api.x.ai", "openrouter.ai"];
const NPM: &[&str] = &["registry.npmjs.org"];
const PYPI: &[&str] = &["files.pythonhosted.org", "pypi.org"];

pub(super) const AIDER: HostRows = HostRows {
    model: &[ANTHROPIC, OPENAI, GOOGLE, OTHERS],
    telemetry: &["us.i.posthog.com"],
    update: PYPI,
};
pub(super) const CLAUDE: HostRows = HostRows {
    model: &[ANTHROPIC],
    telemetry: &[
        "browser-intake-us5-datadoghq.com",
        "http-intake.logs.us5.datadoghq.com",
        "sentry.io",
        "statsig.anthropic.com",
    ],
    update: &["downloads.claude.ai", "registry.npmjs.org"],
};
pub(super) const CODEX: HostRows = HostRows {
    model: &[OPENAI],
    telemetry: &["ab.chatgpt.com"],
    update: &["api.github.com", "registry.npmjs.org", "releases.openai.com"],
};
pub(super) const COPILOT_CLI: HostRows = HostRows {
    model: &[COPILOT],
    telemetry: &[
        "collector.github.com",
        "copilot-telemetry.githubusercontent.com",
        "default.exp-tas.com",
        "telemetry.business.githubcopilot.com",
        "telemetry.enterprise.githubcopilot.com",
        "telemetry.individual.githubcopilot.com",
    ],
    update: NPM,
};
pub(super) const CRUSH: HostRows = HostRows {
    model: &[ANTHROPIC, OPENAI, GOOGLE, OTHERS, &["catwalk.charm.land", "catwalk.charm.sh"]],
    telemetry: &["data.charm.land"],
    update: &["api.github.com"],
};
pub(super) const GEMINI: HostRows = HostRows {
    model: &[
        GOOGLE,
        &[
            "accounts.google.com",
            "aiplatform.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
            "www.googleapis.com",
        ],
    ],
    telemetry: &["play.googleapis.com"],
    update: NPM,
};
pub(super) const KIMI: HostRows = HostRows {
    model: &[&["api.kimi.com", "api.moonshot.ai", "api.moonshot.cn", "auth.kimi.com"]],
    telemetry: &["telemetry-logs.kimi.com"],
    update: &["cdn.kimi.com", "files.pythonhosted.org", "pypi.org"],
};
pub(super) const LETTA: HostRows =
    HostRows { model: &[&["api.letta.com", "app.letta.com"]], telemetry: &[], update: NPM };
pub(super) const OPENCODE: HostRows = HostRows {
    model: &[
        ANTHROPIC,
        OPENAI,
        GOOGLE,
        OTHERS,
        COPILOT,
        &["api.opencode.ai", "models.dev", "models.opencode.ai", "opencode.ai"],
    ],
    telemetry: &[],
    update: NPM,
};
pub(super) const OPENHANDS: HostRows = HostRows {
    model: &[
        ANTHROPIC,
        OPENAI,
        GOOGLE,
        OTHERS,
        &["app.all-hands.dev", "llm-proxy.app.all-hands.dev"],
    ],
    telemetry: &["us.i.posthog.com"],
    update: PYPI,
};
pub(super) const QWEN: HostRows = HostRows {
    model: &[&[
        "api-inference.modelscope.cn",
        "api.anthropic.com",
        "api.openai.com",
        "chat.qwen.ai",
        "coding-intl.dashscope.aliyuncs.com",
        "coding.dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
        "dashscope-us.aliyuncs.com",
        "dashscope.aliyuncs.com",
        "openrouter.ai",
        "portal.qwen.ai",
    ]],
    telemetry: &["gb4w8c3ygj-default-sea.rum.aliyuncs.com"],
    update: NPM,
};
pub(super) const VIBE: HostRows = HostRows {
    model: &[&["api.mistral.ai", "console.mistral.ai"]],
    telemetry: &["experiments.mistral.services"],
    update: PYPI,
};
