//! Errors in requests and responses, and the response to an invalid request.

use aifo_types::Refusal;

use crate::chunked::ChunkError;
use crate::framing::FramingError;
use crate::head::HeadTooLarge;
use crate::limits::{Limits, MIB};

/// An invalid request or response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The head exceeds [`Limits::max_head`] or [`Limits::max_headers`].
    #[error("headers too large")]
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
    /// The decoded body of a request exceeds [`Limits::max_body`], or the encoded one
    /// [`Limits::max_drain`].
    #[error("body too large")]
    BodyTooLarge,
    /// The connection ended before the message was complete.
    #[error("cut off")]
    Truncated,
}

impl MessageError {
    /// Returns the refusal of a request: 431, 413, or 400 with the reason.
    pub fn refusal(&self, limits: &Limits) -> Refusal {
        match self {
            MessageError::HeadTooLarge => Refusal::HeadTooLarge,
            MessageError::BodyTooLarge => {
                Refusal::BodyTooLarge { limit_mib: limits.max_body.div_ceil(MIB) }
            }
            MessageError::Truncated => Refusal::BadRequest("request cut off".to_owned()),
            _ => Refusal::BadRequest(self.to_string()),
        }
    }
}

impl From<HeadTooLarge> for MessageError {
    fn from(_: HeadTooLarge) -> Self {
        MessageError::HeadTooLarge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        let rows = [
            (MessageError::HeadTooLarge, 431, "request headers too large\n"),
            (MessageError::BodyTooLarge, 413, "request body exceeds 1 MiB\n"),
            (MessageError::BadHead("why"), 400, "bad request: why\n"),
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
            (MessageError::Truncated, 400, "bad request: request cut off\n"),
        ];
        for (error, status, body) in rows {
            let refusal = error.refusal(&Limits::default());
            assert_eq!((refusal.status().0, refusal.body().as_str()), (status, body), "{error:?}");
        }
    }
}
