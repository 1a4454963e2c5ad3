//! Responses to git of the proxy itself: text, which git prints.

use hyper::StatusCode;

use aifo_forge::{ApiError, PushError};

use crate::head::InvalidRequest;

/// Why a request to a forge is not passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForgeRefusal {
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    #[error("no request of git: {0}")]
    Path(String),
    #[error(
        "'{0}' is none of the project's remotes\n\
         hint: name it on the user's machine: repositories of [services] in its configuration"
    )]
    Repository(String),
    #[error(
        "the credential is not this session's\nhint: use the environment that the agent was started with"
    )]
    Credential,
    #[error("this push cannot be judged: {0}")]
    Push(PushError),
    #[error("the body of this request is compressed\nhint: push with git")]
    Encoded,
    #[error("a tool only fetches\nhint: push with the agent's git")]
    Tool,
    #[error("files of git-lfs are not locked")]
    Locks,
    #[error(
        "{0} is not passed on\nhint: 'gh' reads the project's own repositories, and changes issues and pull requests"
    )]
    Api(String),
    #[error(transparent)]
    GraphQl(#[from] ApiError),
    #[error("{0}")]
    Denied(String),
    #[error("cannot read the credential of '{forge}': {reason}")]
    Source { forge: String, reason: String },
    #[error("'{0}' does not accept the user's credential for this")]
    Unauthorized(String),
    #[error(
        "'{0}' answered with another address\nhint: set the remote to the repository's present URL"
    )]
    Redirect(String),
    #[error("cannot reach the forge: {0}")]
    Upstream(String),
    #[error("the forge did not answer within {0} minutes")]
    Timeout(u64),
}

impl ForgeRefusal {
    pub(crate) const MALFORMED: ForgeRefusal = ForgeRefusal::Invalid(InvalidRequest::Malformed);

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            ForgeRefusal::Invalid(invalid) => invalid.status(),
            // After 401 git would ask for a password.
            ForgeRefusal::Path(_)
            | ForgeRefusal::Repository(_)
            | ForgeRefusal::Credential
            | ForgeRefusal::Push(_)
            | ForgeRefusal::Tool
            | ForgeRefusal::Api(_)
            | ForgeRefusal::GraphQl(_)
            | ForgeRefusal::Denied(_)
            | ForgeRefusal::Unauthorized(_) => StatusCode::FORBIDDEN,
            // By which git-lfs knows a forge without locks.
            ForgeRefusal::Locks => StatusCode::NOT_IMPLEMENTED,
            ForgeRefusal::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ForgeRefusal::Source { .. } | ForgeRefusal::Redirect(_) | ForgeRefusal::Upstream(_) => {
                StatusCode::BAD_GATEWAY
            }
            ForgeRefusal::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}
