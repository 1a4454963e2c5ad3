//! Responses of the proxy itself, in the form of the provider's errors.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::head::InvalidRequest;
use crate::providers::ErrorForm;

/// Why a request is not passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    #[error("unknown path\nhint: the proxy passes on the model's own API only")]
    Path,
    #[error("unknown provider; this session has {0}")]
    Provider(String),
    #[error("this path does not have this method")]
    Method,
    #[error("the key is not this session's\nhint: use the key of the agent's environment")]
    Key,
    #[error("this session's limit of {0} is reached\nhint: raise it with {1}")]
    Limit(String, &'static str),
    #[error(
        "this session's limit of {limit} tokens leaves {left}, and the request may use {stated}\n\
         hint: raise it with --max-tokens"
    )]
    Room { limit: u64, left: u64, stated: u64 },
    #[error("a session with --max-tokens cannot count this request: {0}")]
    Uncounted(String),
    #[error("a session with --max-tokens has no WebSockets\nhint: send the request by HTTP")]
    WebSocket,
    #[error("cannot read the key of '{provider}': {reason}")]
    Source { provider: String, reason: String },
    #[error("cannot reach the provider: {0}")]
    Upstream(String),
    #[error("the provider did not answer within {0} minutes")]
    Timeout(u64),
}

impl Refusal {
    pub(crate) const MALFORMED: Refusal = Refusal::Invalid(InvalidRequest::Malformed);

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Refusal::Uncounted(_) => StatusCode::BAD_REQUEST,
            // Agents take it as the end of WebSockets, not of the conversation.
            Refusal::WebSocket => StatusCode::UPGRADE_REQUIRED,
            Refusal::Invalid(invalid) => invalid.status(),
            Refusal::Path | Refusal::Provider(_) => StatusCode::NOT_FOUND,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Key => StatusCode::UNAUTHORIZED,
            Refusal::Limit(..) | Refusal::Room { .. } => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Source { .. } | Refusal::Upstream(_) => StatusCode::BAD_GATEWAY,
            Refusal::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns the JSON body.
    pub(crate) fn body(&self, form: ErrorForm) -> Value {
        let message = format!("aifo: {self}");
        let status = self.status();
        match form {
            ErrorForm::OpenAi => {
                let kind = match self {
                    Refusal::Limit(..) | Refusal::Room { .. } => "insufficient_quota",
                    Refusal::Key => "invalid_api_key",
                    _ if status.is_server_error() => "server_error",
                    _ => "invalid_request_error",
                };
                json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
            }
            ErrorForm::Anthropic => {
                let kind = match status {
                    StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
                    StatusCode::UNAUTHORIZED => "authentication_error",
                    StatusCode::NOT_FOUND => "not_found_error",
                    _ if status.is_server_error() => "api_error",
                    _ => "invalid_request_error",
                };
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            ErrorForm::Google => {
                let name = match status {
                    StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
                    StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
                    StatusCode::NOT_FOUND => "NOT_FOUND",
                    StatusCode::GATEWAY_TIMEOUT => "DEADLINE_EXCEEDED",
                    _ if status.is_server_error() => "UNAVAILABLE",
                    _ => "INVALID_ARGUMENT",
                };
                json!({"error": {"code": status.as_u16(), "message": message, "status": name}})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_each_providers_form() {
        let refusal = Refusal::Limit("5 requests".to_owned(), "--max-requests");
        let text = "aifo: this session's limit of 5 requests is reached\n\
                    hint: raise it with --max-requests";
        let openai = refusal.body(ErrorForm::OpenAi);
        assert_eq!(openai["error"]["message"], text);
        assert_eq!(openai["error"]["code"], "insufficient_quota");
        let anthropic = refusal.body(ErrorForm::Anthropic);
        assert_eq!(anthropic["error"]["type"], "rate_limit_error");
        let google = refusal.body(ErrorForm::Google);
        assert_eq!(
            (&google["error"]["code"], &google["error"]["status"]),
            (&json!(429), &json!("RESOURCE_EXHAUSTED"))
        );
    }
}
