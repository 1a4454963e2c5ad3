//! Errors in frames.

use crate::frame_codes::FrameKind;

/// An invalid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The kind is unknown.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// The payload exceeds [`MAX_PAYLOAD`](crate::MAX_PAYLOAD), or
    /// [`MAX_START`](crate::MAX_START) for [`Frame::Start`](crate::Frame::Start).
    #[error("{kind:?} frame of {len} bytes is too long")]
    TooLong {
        /// The frame's kind.
        kind: FrameKind,
        /// The payload's declared length in bytes.
        len: u32,
    },
    /// The payload is truncated, has trailing bytes, or contains a value out of range.
    #[error("malformed {0:?} frame")]
    Malformed(FrameKind),
}
