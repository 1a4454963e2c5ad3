//! Errors in requests and the responses to them.

use aifo_types::Refusal;

use crate::chunked::ChunkError;
use crate::framing::FramingError;
use crate::head::HeadTooLarge;
use crate::limits::{Limits, MIB};

/// An invalid request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The head exceeds [`Limits::max_head`] or [`Limits::max_headers`].
    #[error("request headers too large")]
    HeadTooLarge,
    /// The head is not HTTP/1.x.
    #[error("{0}")]
    BadHead(&'static str),
    /// The head delimits the body ambiguously.
    #[error("{0}")]
    BadFraming(#[from] FramingError),
    /// A chunked body is malformed.
    #[error("{0}")]
    BadChunk(#[from] ChunkError),
    /// The decoded body exceeds [`Limits::max_body`], or the encoded one [`Limits::max_drain`].
    #[error("request body too large")]
    BodyTooLarge,
    /// The connection ended before the request was complete.
    #[error("request cut off")]
    Truncated,
}

impl RequestError {
    /// Returns the refusal: 431, 413, or 400 with the reason.
    pub fn refusal(&self, limits: &Limits) -> Refusal {
        match self {
            RequestError::HeadTooLarge => Refusal::HeadTooLarge,
            RequestError::BodyTooLarge => {
                Refusal::BodyTooLarge { limit_mib: limits.max_body.div_ceil(MIB) }
            }
            _ => Refusal::BadRequest(self.to_string()),
        }
    }
}

impl From<HeadTooLarge> for RequestError {
    fn from(_: HeadTooLarge) -> Self {
        RequestError::HeadTooLarge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        let rows = [
            (RequestError::HeadTooLarge, 431, "request headers too large\n"),
            (RequestError::BodyTooLarge, 413, "request body exceeds 1 MiB\n"),
            (RequestError::BadHead("why"), 400, "bad request: why\n"),
            (FramingError::BadContentLength.into(), 400, "bad request: malformed content length\n"),
            (
                FramingError::ConflictingLengths.into(),
                400,
                "bad request: conflicting content lengths\n",
            ),
            (
                FramingError::UnsupportedCoding.into(),
                400,
                "bad request: unsupported transfer coding\n",
            ),
            (ChunkError::BadSize.into(), 400, "bad request: malformed chunk size\n"),
            (RequestError::Truncated, 400, "bad request: request cut off\n"),
        ];
        for (error, status, body) in rows {
            let refusal = error.refusal(&Limits::default());
            assert_eq!((refusal.status().0, refusal.body().as_str()), (status, body), "{error:?}");
        }
    }
}
