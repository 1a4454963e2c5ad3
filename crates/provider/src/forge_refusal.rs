//! Responses to git of the proxy itself: text, which git prints.

use hyper::StatusCode;

use aifo_forge::PushError;

use crate::head::InvalidHead;

/// Why a request to a forge is not passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForgeRefusal {
    #[error("the request is malformed")]
    Malformed,
    #[error("the head of the request is longer than 64 KiB")]
    Head,
    #[error("the host of this request is not this proxy")]
    Host,
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
    #[error("a push is not compressed as a whole\nhint: push with git")]
    Encoded,
    #[error("files of git-lfs are not uploaded\nhint: ask the user to push them")]
    Upload,
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

impl From<InvalidHead> for ForgeRefusal {
    fn from(invalid: InvalidHead) -> Self {
        match invalid {
            InvalidHead::TooLong => ForgeRefusal::Head,
            InvalidHead::Host => ForgeRefusal::Host,
            InvalidHead::Malformed => ForgeRefusal::Malformed,
        }
    }
}

impl ForgeRefusal {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            ForgeRefusal::Malformed => StatusCode::BAD_REQUEST,
            ForgeRefusal::Head => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            ForgeRefusal::Host => StatusCode::MISDIRECTED_REQUEST,
            // After 401 git would ask for a password.
            ForgeRefusal::Path(_)
            | ForgeRefusal::Repository(_)
            | ForgeRefusal::Credential
            | ForgeRefusal::Push(_)
            | ForgeRefusal::Upload
            | ForgeRefusal::Unauthorized(_) => StatusCode::FORBIDDEN,
            ForgeRefusal::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ForgeRefusal::Source { .. } | ForgeRefusal::Redirect(_) | ForgeRefusal::Upstream(_) => {
                StatusCode::BAD_GATEWAY
            }
            ForgeRefusal::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}
