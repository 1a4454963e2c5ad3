//! Errors in responses.

use crate::chunked::ChunkError;
use crate::framing::FramingError;
use crate::head::HeadTooLarge;

/// An invalid response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The head exceeds `max_head` or `max_headers` of the limits.
    #[error("response headers too large")]
    HeadTooLarge,
    /// The head is not HTTP/1.x.
    #[error("{0}")]
    BadHead(&'static str),
    /// The head delimits the body ambiguously.
    #[error("{0}")]
    BadFraming(#[from] FramingError),
    /// The chunked body is malformed.
    #[error("{0}")]
    BadChunk(#[from] ChunkError),
    /// The connection ended before the response was complete.
    #[error("response cut off")]
    Truncated,
}

impl From<HeadTooLarge> for ResponseError {
    fn from(_: HeadTooLarge) -> Self {
        ResponseError::HeadTooLarge
    }
}
