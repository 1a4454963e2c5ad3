//! The files of the user that an agent's own state gets (`spec/agents.md#state`).
//!
//! Only what is listed is copied. No key of a setting names a program: no MCP server, hook, plugin
//! or helper. A login that leads the agent elsewhere, such as a key with a server's address, has
//! only the listed words, as an agent in the container can write it.

use super::state_file::{FileFormat, StateFile};

/// The part of a row about the user's files.
pub(super) struct CopiedState {
    /// The login, copied both ways.
    pub(super) credentials: Option<CopiedFile>,
    /// Settings, copied once.
    pub(super) import: &'static [CopiedFile],
    /// Conversations, copied once if the user wants it.
    pub(super) conversations: &'static [&'static str],
}

/// A [`StateFile`] with static data.
pub(super) struct CopiedFile {
    from: &'static str,
    to: &'static str,
    format: FileFormat,
    keys: &'static [&'static str],
}

impl CopiedFile {
    pub(super) fn file(&self) -> StateFile {
        StateFile {
            from: self.from.into(),
            to: self.to.into(),
            format: self.format,
            keys: self.keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }
}

const fn json(path: &'static str, keys: &'static [&'static str]) -> CopiedFile {
    CopiedFile { from: path, to: path, format: FileFormat::Json, keys }
}

const fn toml(path: &'static str, keys: &'static [&'static str]) -> CopiedFile {
    CopiedFile { from: path, to: path, format: FileFormat::Toml, keys }
}

const fn env(path: &'static str, keys: &'static [&'static str]) -> CopiedFile {
    CopiedFile { from: path, to: path, format: FileFormat::Env, keys }
}

/// A file of instructions for the model.
const fn text(path: &'static str) -> CopiedFile {
    CopiedFile { from: path, to: path, format: FileFormat::Text, keys: &[] }
}

pub(super) const AIDER: CopiedState = CopiedState {
    credentials: None,
    import: &[env(".aider/oauth-keys.env", &["OPENROUTER_API_KEY"])],
    conversations: &[],
};

pub(super) const CLAUDE: CopiedState = CopiedState {
    credentials: Some(json(".claude/.credentials.json", &["claudeAiOauth.*"])),
    import: &[
        // In the container it is in the state directory.
        CopiedFile {
            from: ".claude.json",
            to: ".claude/.claude.json",
            format: FileFormat::Json,
            keys: &[
                "bypassPermissionsModeAccepted",
                "customApiKeyResponses.*",
                "editorMode",
                "hasCompletedOnboarding",
                "oauthAccount.*",
                "theme",
                "verbose",
            ],
        },
        json(
            ".claude/settings.json",
            &[
                "alwaysThinkingEnabled",
                "cleanupPeriodDays",
                "effortLevel",
                "includeCoAuthoredBy",
                "language",
                "model",
                "outputStyle",
            ],
        ),
        text(".claude/CLAUDE.md"),
    ],
    conversations: &[".claude/projects", ".claude/history.jsonl"],
};

pub(super) const CODEX: CopiedState = CopiedState {
    credentials: Some(json(
        ".codex/auth.json",
        &["OPENAI_API_KEY", "auth_mode", "last_refresh", "tokens.*"],
    )),
    import: &[
        toml(
            ".codex/config.toml",
            &[
                "approval_policy",
                "check_for_update_on_startup",
                "disable_response_storage",
                "file_opener",
                "hide_agent_reasoning",
                "model",
                "model_auto_compact_token_limit",
                "model_context_window",
                "model_provider",
                "model_providers.*.base_url",
                "model_providers.*.env_key",
                "model_providers.*.name",
                "model_providers.*.query_params.*",
                "model_providers.*.request_max_retries",
                "model_providers.*.requires_openai_auth",
                "model_providers.*.stream_idle_timeout_ms",
                "model_providers.*.stream_max_retries",
                "model_providers.*.wire_api",
                "model_reasoning_effort",
                "model_reasoning_summary",
                "model_verbosity",
                "personality",
                "profile",
                "profiles.*.approval_policy",
                "profiles.*.model",
                "profiles.*.model_provider",
                "profiles.*.model_reasoning_effort",
                "profiles.*.sandbox_mode",
                "sandbox_mode",
                "show_raw_agent_reasoning",
                "web_search",
            ],
        ),
        text(".codex/AGENTS.md"),
    ],
    conversations: &[".codex/sessions", ".codex/history.jsonl"],
};

pub(super) const COPILOT: CopiedState = CopiedState {
    credentials: Some(json(".copilot/config.json", &["copilot_tokens.*"])),
    import: &[json(
        ".copilot/config.json",
        &[
            "banner",
            "last_logged_in_user.host",
            "last_logged_in_user.login",
            "logged_in_users.*.host",
            "logged_in_users.*.login",
            "model",
            "render_markdown",
            "screen_reader",
            "theme",
        ],
    )],
    conversations: &[".copilot/session-state", ".copilot/history-session-state"],
};

pub(super) const CRUSH: CopiedState = CopiedState {
    // Its file of logins is a file of settings, with MCP servers, and a key may be a command.
    credentials: None,
    import: &[
        json(
            ".config/crush/crush.json",
            &[
                "models.*.max_tokens",
                "models.*.model",
                "models.*.provider",
                "models.*.reasoning_effort",
                "models.*.think",
                "options.debug",
                "options.disable_auto_summarize",
                "options.tui.*",
                "providers.*.base_url",
                "providers.*.disable",
                "providers.*.id",
                "providers.*.name",
                "providers.*.type",
            ],
        ),
        json(".local/share/crush/crush.json", &["models.*.model", "models.*.provider"]),
    ],
    conversations: &[],
};

/// Settings of gemini, and of qwen, which descends from it.
const GEMINI_SETTINGS: &[&str] = &[
    "context.fileName",
    "general.checkpointing.enabled",
    "general.disableAutoUpdate",
    "general.enableAutoUpdate",
    "general.previewFeatures",
    "general.vimMode",
    "model.maxSessionTurns",
    "model.name",
    "privacy.usageStatisticsEnabled",
    "security.auth.selectedType",
    "selectedAuthType",
    "telemetry.enabled",
    "theme",
    "ui.hideBanner",
    "ui.hideTips",
    "ui.theme",
    "vimMode",
];

pub(super) const GEMINI: CopiedState = CopiedState {
    credentials: Some(json(
        ".gemini/oauth_creds.json",
        &["access_token", "expiry_date", "id_token", "refresh_token", "scope", "token_type"],
    )),
    import: &[
        json(".gemini/settings.json", GEMINI_SETTINGS),
        json(".gemini/google_accounts.json", &["active", "old"]),
        text(".gemini/GEMINI.md"),
    ],
    conversations: &[".gemini/tmp"],
};

pub(super) const KIMI: CopiedState = CopiedState {
    credentials: Some(json(
        ".kimi/credentials/kimi-code.json",
        &["access_token", "expires_at", "expires_in", "refresh_token", "scope", "token_type"],
    )),
    import: &[toml(
        ".kimi/config.toml",
        &[
            "default_model",
            "default_thinking",
            "models.*.capabilities",
            "models.*.max_context_size",
            "models.*.model",
            "models.*.provider",
            "providers.*.api_key",
            "providers.*.base_url",
            "providers.*.oauth.key",
            "providers.*.oauth.storage",
            "providers.*.type",
        ],
    )],
    conversations: &[".kimi/kimi.json", ".kimi/sessions"],
};

pub(super) const LETTA: CopiedState = CopiedState {
    credentials: Some(json(
        ".letta/settings.json",
        &["env.LETTA_API_KEY", "refreshToken", "tokenExpiresAt"],
    )),
    import: &[json(".letta/settings.json", &["deviceId", "lastAgent", "tokenStreaming"])],
    conversations: &[],
};

pub(super) const OPENCODE: CopiedState = CopiedState {
    credentials: Some(json(
        ".local/share/opencode/auth.json",
        // A login of another type fetches settings, with commands, from the address that is its name.
        &["*.access", "*.accountId", "*.expires", "*.key", "*.refresh", "*.type=oauth|api"],
    )),
    import: &[
        json(
            ".config/opencode/opencode.json",
            &[
                "autoupdate",
                "disabled_providers",
                "enabled_providers",
                "model",
                "permission",
                "permission.*",
                "provider.*.models.*.limit.*",
                "provider.*.models.*.name",
                "provider.*.models.*.reasoning",
                "provider.*.models.*.tool_call",
                "provider.*.name",
                // Packages that are part of the program.
                "provider.*.npm=@ai-sdk/anthropic|@ai-sdk/google|@ai-sdk/openai|@ai-sdk/openai-compatible",
                "provider.*.options.apiKey",
                "provider.*.options.baseURL",
                "share",
                "small_model",
                "theme",
                "username",
            ],
        ),
        text(".config/opencode/AGENTS.md"),
    ],
    conversations: &[".local/share/opencode/storage"],
};

pub(super) const OPENHANDS: CopiedState = CopiedState {
    credentials: None,
    import: &[json(
        ".openhands/agent_settings.json",
        &[
            "condenser.keep_first",
            "condenser.kind",
            "condenser.llm.*",
            "condenser.max_size",
            "kind",
            "llm.*",
        ],
    )],
    conversations: &[".openhands/conversations"],
};

pub(super) const QWEN: CopiedState = CopiedState {
    credentials: Some(json(
        ".qwen/oauth_creds.json",
        &[
            "access_token",
            "expiry_date",
            "refresh_token",
            "resource_url=portal.qwen.ai|https://portal.qwen.ai/v1",
            "token_type",
        ],
    )),
    import: &[json(".qwen/settings.json", GEMINI_SETTINGS), text(".qwen/QWEN.md")],
    conversations: &[".qwen/projects", ".qwen/tmp"],
};

pub(super) const VIBE: CopiedState = CopiedState {
    credentials: None,
    import: &[
        toml(
            ".vibe/config.toml",
            &[
                "active_model",
                "auto_compact_threshold",
                "enable_auto_update",
                "enable_telemetry",
                "enable_update_checks",
                "models.*.alias",
                "models.*.input_price",
                "models.*.name",
                "models.*.output_price",
                "models.*.provider",
                "models.*.temperature",
                "providers.*.api_base",
                "providers.*.api_key_env_var",
                "providers.*.api_style",
                "providers.*.backend",
                "providers.*.name",
                "providers.*.reasoning_field_name",
                "textual_theme",
                "vim_keybindings",
            ],
        ),
        env(".vibe/.env", &["MISTRAL_API_KEY"]),
    ],
    conversations: &[".vibe/logs", ".vibe/vibehistory"],
};
