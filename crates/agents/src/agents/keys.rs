//! How agents are given a base URL and a key (`spec/keys.md#agents`).

use serde_json::Value;

/// A provider that an agent reaches at a base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The provider's name, or `compatible`: only at a URL of the user's.
    pub provider: &'static str,
    /// The variable from which the agent reads the key.
    pub key: &'static str,
    /// Where the agent reads the base URL.
    pub base: BaseUrl,
    /// The end of the agent's base URL.
    pub path: &'static str,
    /// The user's variable with another base URL.
    pub user_base: Option<&'static str>,
    /// Where the agent's login has the key, if it can have one.
    pub login: Option<LoginKey>,
    /// A file of settings of the image, without which the agent does not use the key at a base URL.
    pub settings: Option<SettingsFile>,
}

/// A file of settings in the image of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// The variable by which the agent finds it.
    pub variable: &'static str,
    /// Its path.
    pub path: &'static str,
    /// A variable of the user's that selects another login; then the agent does not get the file.
    pub unless: &'static str,
}

/// A key in an agent's login, by JSON pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginKey {
    /// The key.
    pub pointer: &'static str,
    /// A login by OAuth, which the agent uses instead of the key.
    pub oauth: Option<&'static str>,
}

/// Where an agent reads a base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseUrl {
    /// A variable.
    Variable(&'static str),
    /// Arguments, in which `{}` is the URL.
    Arguments(&'static [&'static str]),
    /// A variable with settings in JSON, and the pointer of the URL in them.
    Json(&'static str, &'static str),
}

const fn row(
    provider: &'static str,
    key: &'static str,
    base: &'static str,
    path: &'static str,
) -> KeyRow {
    let (base, user_base) = (BaseUrl::Variable(base), Some(base));
    KeyRow { provider, key, base, path, user_base, login: None, settings: None }
}

/// The path of most base URLs.
const V1: &str = "/v1";

pub(super) const AIDER: &[KeyRow] = &[
    row("openai", "OPENAI_API_KEY", "OPENAI_API_BASE", V1),
    row("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_API_BASE", ""),
    row("xai", "XAI_API_KEY", "XAI_API_BASE", V1),
];

pub(super) const CLAUDE: &[KeyRow] = &[KeyRow {
    // It asks the user about each new ANTHROPIC_API_KEY.
    key: "ANTHROPIC_AUTH_TOKEN",
    ..row("anthropic", "", "ANTHROPIC_BASE_URL", "")
}];

pub(super) const CODEX: &[KeyRow] = &[KeyRow {
    // A provider of its own: the built-in one takes a key only from the login.
    base: BaseUrl::Arguments(&[
        "-c",
        "model_provider=\"aifo\"",
        "-c",
        "model_providers.aifo={name=\"OpenAI\",base_url=\"{}\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}",
    ]),
    login: Some(LoginKey { pointer: "/OPENAI_API_KEY", oauth: Some("/tokens") }),
    ..row("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", V1)
}];

pub(super) const COPILOT: &[KeyRow] =
    &[row("compatible", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL", V1)];

pub(super) const GEMINI: &[KeyRow] = &[KeyRow {
    // With a base URL in a variable and no login in its settings it selects a login `gateway`, which it then
    // rejects. The file has defaults, which the user's settings override. It must belong to root.
    settings: Some(SettingsFile {
        variable: "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
        path: "/etc/gemini-cli/defaults-with-key.json",
        unless: "GOOGLE_GENAI_USE_VERTEXAI",
    }),
    ..row("gemini", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "")
}];

/// Its key is of one of several APIs, so it is proxied only at a URL of the user's.
pub(super) const KIMI: &[KeyRow] = &[row("compatible", "KIMI_API_KEY", "KIMI_BASE_URL", V1)];

const OPENCODE_SETTINGS: &str = "OPENCODE_CONFIG_CONTENT";

const fn opencode(
    provider: &'static str,
    key: &'static str,
    pointer: &'static str,
    path: &'static str,
    login: &'static str,
) -> KeyRow {
    let base = BaseUrl::Json(OPENCODE_SETTINGS, pointer);
    let login = Some(LoginKey { pointer: login, oauth: None });
    KeyRow { provider, key, base, path, user_base: None, login, settings: None }
}

pub(super) const OPENCODE: &[KeyRow] = &[
    opencode(
        "anthropic",
        "ANTHROPIC_API_KEY",
        "/provider/anthropic/options/baseURL",
        V1,
        "/anthropic/key",
    ),
    opencode(
        "deepseek",
        "DEEPSEEK_API_KEY",
        "/provider/deepseek/options/baseURL",
        V1,
        "/deepseek/key",
    ),
    opencode(
        "gemini",
        "GEMINI_API_KEY",
        "/provider/google/options/baseURL",
        "/v1beta",
        "/google/key",
    ),
    opencode("groq", "GROQ_API_KEY", "/provider/groq/options/baseURL", V1, "/groq/key"),
    opencode("mistral", "MISTRAL_API_KEY", "/provider/mistral/options/baseURL", V1, "/mistral/key"),
    opencode("openai", "OPENAI_API_KEY", "/provider/openai/options/baseURL", V1, "/openai/key"),
    opencode(
        "openrouter",
        "OPENROUTER_API_KEY",
        "/provider/openrouter/options/baseURL",
        V1,
        "/openrouter/key",
    ),
    opencode("xai", "XAI_API_KEY", "/provider/xai/options/baseURL", V1, "/xai/key"),
];

pub(super) const OPENHANDS: &[KeyRow] = &[row("compatible", "LLM_API_KEY", "LLM_BASE_URL", V1)];

pub(super) const QWEN: &[KeyRow] = &[row("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", V1)];

impl BaseUrl {
    /// Adds the setting for this URL to an agent's arguments and variables.
    pub(crate) fn apply(
        self,
        url: &str,
        arguments: &mut Vec<String>,
        variables: &mut Vec<(String, String)>,
    ) {
        match self {
            BaseUrl::Variable(name) => variables.push((name.to_owned(), url.to_owned())),
            BaseUrl::Arguments(words) => {
                arguments.extend(words.iter().map(|word| word.replace("{}", url)));
            }
            BaseUrl::Json(name, pointer) => {
                let known = variables.iter().position(|(known, _)| known == name);
                let text = known.map(|at| variables.remove(at).1);
                let mut settings = text
                    .and_then(|text| serde_json::from_str(&text).ok())
                    .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
                set(&mut settings, pointer, url);
                variables.push((name.to_owned(), settings.to_string()));
            }
        }
    }
}

/// Sets the text at a pointer, with the objects above it.
fn set(settings: &mut Value, pointer: &str, text: &str) {
    let mut at = settings;
    for key in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        at = &mut at[key];
    }
    *at = Value::from(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_several_providers_are_one_document() {
        let (mut arguments, mut variables) = (Vec::new(), Vec::new());
        for row in &OPENCODE[..2] {
            row.base.apply("http://x", &mut arguments, &mut variables);
        }
        let [(name, text)] = &variables[..] else { panic!("{variables:?}") };
        let settings: Value = serde_json::from_str(text).unwrap();
        assert_eq!((name.as_str(), arguments.len()), (OPENCODE_SETTINGS, 0));
        assert_eq!(settings["provider"]["anthropic"]["options"]["baseURL"], "http://x");
        assert_eq!(settings["provider"]["deepseek"]["options"]["baseURL"], "http://x");
    }
}
