//! The table of providers (`spec/keys.md#providers`).

use crate::key::{Alphabet, KeyShape};

/// A provider of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name, which is the first segment of paths.
    pub name: &'static str,
    /// Variables that have a user's key.
    pub variables: &'static [&'static str],
    /// Its URL, without a final slash.
    pub upstream: &'static str,
    /// The header that has the key.
    pub key_header: KeyHeader,
    /// The shape of its keys.
    pub shape: KeyShape,
    /// The form of its errors.
    pub errors: ErrorForm,
    /// The requests that are passed on.
    pub(crate) routes: &'static [&'static [Route]],
}

/// The header of a request that has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`
    Bearer,
    /// `Authorization: token KEY`
    Token,
    /// `Authorization: Basic`, with this user and the key as password.
    Basic(&'static str),
    /// A header of this name, in lower case, with the key alone.
    Named(&'static str),
}

/// The JSON form of a provider's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorForm {
    /// `{"error": {"message", "type", "code"}}`
    OpenAi,
    /// `{"type": "error", "error": {"type", "message"}}`
    Anthropic,
    /// `{"error": {"code", "message", "status"}}`
    Google,
}

/// A method, and paths of which `*` is one segment, or its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) method: RouteMethod,
    pub(crate) paths: &'static [&'static str],
    /// Whether a request costs tokens.
    pub(crate) is_counted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteMethod {
    Get,
    Post,
    /// GET with an upgrade.
    WebSocket,
}

const fn get(paths: &'static [&'static str]) -> Route {
    Route { method: RouteMethod::Get, paths, is_counted: false }
}

const fn post(paths: &'static [&'static str]) -> Route {
    Route { method: RouteMethod::Post, paths, is_counted: true }
}

/// Counts tokens, and costs none.
const fn count(paths: &'static [&'static str]) -> Route {
    Route { method: RouteMethod::Post, paths, is_counted: false }
}

/// The API that most providers share.
const CHAT: &[Route] = &[
    get(&["/v1/models", "/v1/models/*"]),
    post(&["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]),
];

const RESPONSES: &[Route] =
    &[post(&["/v1/responses", "/v1/responses/compact"]), count(&["/v1/responses/input_tokens"])];

const WEB_SOCKET: &[Route] =
    &[Route { method: RouteMethod::WebSocket, paths: &["/v1/responses"], is_counted: true }];

const MESSAGES: &[Route] = &[
    get(&["/v1/models", "/v1/models/*"]),
    post(&["/v1/messages"]),
    count(&["/v1/messages/count_tokens"]),
];

/// Other methods of models answer later, such as `batchGenerateContent`.
const GENERATE: &[Route] = &[
    get(&["/v1beta/models", "/v1beta/models/*", "/v1/models", "/v1/models/*"]),
    post(&[
        "/v1beta/models/*:generateContent",
        "/v1beta/models/*:streamGenerateContent",
        "/v1beta/models/*:embedContent",
        "/v1beta/models/*:batchEmbedContents",
        "/v1/models/*:generateContent",
        "/v1/models/*:streamGenerateContent",
        "/v1/models/*:embedContent",
        "/v1/models/*:batchEmbedContents",
    ]),
    count(&["/v1beta/models/*:countTokens", "/v1/models/*:countTokens"]),
];

/// Any API that is compatible with OpenAI's, at a URL of the user's.
pub const COMPATIBLE: Provider = Provider {
    name: "compatible",
    variables: &[],
    upstream: "",
    key_header: KeyHeader::Bearer,
    shape: KeyShape { prefix: "sk-", alphabet: Alphabet::Alphanumeric, length: 48 },
    errors: ErrorForm::OpenAi,
    routes: &[CHAT, RESPONSES, WEB_SOCKET],
};

/// The providers that have a row, sorted by name.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        variables: &["ANTHROPIC_API_KEY"],
        upstream: "https://api.anthropic.com",
        key_header: KeyHeader::Named("x-api-key"),
        shape: KeyShape { prefix: "sk-ant-api03-", alphabet: Alphabet::UrlSafe, length: 95 },
        errors: ErrorForm::Anthropic,
        routes: &[MESSAGES],
    },
    Provider {
        name: "deepseek",
        variables: &["DEEPSEEK_API_KEY"],
        upstream: "https://api.deepseek.com",
        shape: KeyShape { prefix: "sk-", alphabet: Alphabet::Hexadecimal, length: 32 },
        routes: &[CHAT],
        ..COMPATIBLE
    },
    Provider {
        name: "gemini",
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        upstream: "https://generativelanguage.googleapis.com",
        key_header: KeyHeader::Named("x-goog-api-key"),
        shape: KeyShape { prefix: "AIza", alphabet: Alphabet::UrlSafe, length: 35 },
        errors: ErrorForm::Google,
        routes: &[GENERATE],
    },
    Provider {
        name: "groq",
        variables: &["GROQ_API_KEY"],
        upstream: "https://api.groq.com/openai",
        shape: KeyShape { prefix: "gsk_", alphabet: Alphabet::Alphanumeric, length: 52 },
        routes: &[CHAT, RESPONSES],
        ..COMPATIBLE
    },
    Provider {
        name: "mistral",
        variables: &["MISTRAL_API_KEY"],
        upstream: "https://api.mistral.ai",
        shape: KeyShape { prefix: "", alphabet: Alphabet::Alphanumeric, length: 32 },
        routes: &[CHAT, &[post(&["/v1/fim/completions"])]],
        ..COMPATIBLE
    },
    Provider {
        name: "openai",
        variables: &["OPENAI_API_KEY"],
        upstream: "https://api.openai.com",
        ..COMPATIBLE
    },
    Provider {
        name: "openrouter",
        variables: &["OPENROUTER_API_KEY"],
        upstream: "https://openrouter.ai/api",
        shape: KeyShape { prefix: "sk-or-v1-", alphabet: Alphabet::Hexadecimal, length: 64 },
        routes: &[CHAT, RESPONSES, &[get(&["/v1/models/*/*/endpoints", "/v1/key"])]],
        ..COMPATIBLE
    },
    Provider {
        name: "xai",
        variables: &["XAI_API_KEY"],
        upstream: "https://api.x.ai",
        shape: KeyShape { prefix: "xai-", alphabet: Alphabet::Alphanumeric, length: 80 },
        routes: &[CHAT, RESPONSES],
        ..COMPATIBLE
    },
];

impl Provider {
    /// Returns the row of this name.
    ///
    /// ```
    /// let provider = aifo_provider::Provider::of("gemini").unwrap();
    /// assert_eq!(provider.variables[0], "GEMINI_API_KEY");
    /// ```
    pub fn of(name: &str) -> Option<&'static Provider> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_valid() {
        assert!(PROVIDERS.iter().map(|provider| provider.name).is_sorted());
        for provider in PROVIDERS {
            assert!(!provider.variables.is_empty() && !provider.routes.is_empty());
            assert!(provider.upstream.starts_with("https://") && !provider.upstream.ends_with('/'));
            // 160 bits cannot be guessed; 32 hexadecimal digits are what one provider has.
            assert!(provider.shape.length >= 32, "{}", provider.name);
            for path in provider.routes.iter().copied().flatten().flat_map(|route| route.paths) {
                assert!(path.starts_with("/v1"), "{path}");
            }
        }
    }

    #[test]
    fn the_spec_lists_every_provider() {
        const PAGE: &str = include_str!("../../../spec/keys.md");
        for provider in PROVIDERS {
            let variables: Vec<_> =
                provider.variables.iter().map(|name| format!("`{name}`")).collect();
            let KeyShape { prefix, alphabet, length } = provider.shape;
            let characters = match alphabet {
                Alphabet::Hexadecimal => "hexadecimal",
                Alphabet::Alphanumeric => "of `A-Za-z0-9`",
                Alphabet::UrlSafe => "of `A-Za-z0-9_-`",
            };
            let prefix = if prefix.is_empty() { String::new() } else { format!("`{prefix}`, ") };
            let header = match provider.key_header {
                KeyHeader::Bearer => "bearer".to_owned(),
                KeyHeader::Basic(user) => format!("basic, {user}"),
                KeyHeader::Token => "`Authorization: token`".to_owned(),
                KeyHeader::Named(name) => format!("`{name}`"),
            };
            let row = format!(
                "| `{}` | {} | `{}` | {header} | {prefix}{length} {characters} |\n",
                provider.name,
                variables.join(" "),
                provider.upstream
            );
            assert!(PAGE.contains(&row), "{row}");
        }
    }
}
