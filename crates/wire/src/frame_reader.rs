//! Taking runner frames off a stream.

use crate::buffer::Buffer;
use crate::frame::{Frame, MAX_PAYLOAD, MAX_START};
use crate::frame_codes::FrameKind;

/// Takes frames off a stream of bytes. What it holds is bounded by the largest frame and the
/// reads that go into its buffer.
#[derive(Debug)]
pub struct FrameReader {
    buffer: Buffer,
    /// The largest payload of a `Start`.
    max_start: usize,
    /// Bytes at the buffer's front that the last frame borrowed.
    spent: usize,
    failed: Option<FrameError>,
}

/// Why bytes are not frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A kind that this version does not know.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// A payload above [`MAX_PAYLOAD`], or [`MAX_START`] for [`Frame::Start`].
    #[error("{kind:?} frame of {len} bytes is too long")]
    TooLong {
        /// Which frame.
        kind: FrameKind,
        /// Its announced length in bytes.
        len: u32,
    },
    /// A payload that is cut off, goes on behind its end, or holds a value out of range.
    #[error("malformed {0:?} frame")]
    Malformed(FrameKind),
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReader {
    /// A reader at the start of a control connection.
    pub fn new() -> Self {
        FrameReader { buffer: Buffer::new(), max_start: MAX_START, spent: 0, failed: None }
    }

    /// A reader at the start of a client's connection, where no `Start` belongs: nobody there can
    /// make us hold as much.
    pub fn for_client() -> Self {
        FrameReader { max_start: MAX_PAYLOAD, ..FrameReader::new() }
    }

    /// Where reads from the stream go.
    pub fn buffer(&mut self) -> &mut Buffer {
        self.buffer.consume(std::mem::take(&mut self.spent));
        &mut self.buffer
    }

    /// Takes a copy of bytes that were read elsewhere.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer().extend(bytes);
    }

    /// Whether the bytes so far end within a frame: then the end of the stream cuts one off.
    pub fn is_within_frame(&self) -> bool {
        self.buffer.len() > self.spent
    }

    /// The next frame, or `None` until more bytes have come. After an error, that error.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        self.buffer();
        if let Some(error) = self.failed {
            return Err(error);
        }
        let next = match split_frame(self.buffer.as_slice(), self.max_start) {
            Ok(Some((kind, payload))) => {
                self.spent = HEAD_LEN + payload.len();
                Frame::decode(kind, payload).map(Some)
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        next.inspect_err(|error| self.failed = Some(*error))
    }
}

/// Cuts the first frame off; its length is judged before its payload is there.
fn split_frame(bytes: &[u8], max_start: usize) -> Result<Option<(FrameKind, &[u8])>, FrameError> {
    let Some((&[kind, ref length @ ..], rest)) = bytes.split_first_chunk::<HEAD_LEN>() else {
        return Ok(None);
    };
    let kind = FrameKind::from_code(kind).ok_or(FrameError::UnknownKind(kind))?;
    let len = u32::from_be_bytes(*length);
    let max = if kind == FrameKind::Start { max_start } else { MAX_PAYLOAD };
    match usize::try_from(len) {
        Ok(size) if size <= max => Ok(rest.get(..size).map(|payload| (kind, payload))),
        _ => Err(FrameError::TooLong { kind, len }),
    }
}

/// Kind and length.
const HEAD_LEN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_head;
    use crate::frame::{MAX_DATA, MAX_TUNNEL};
    use crate::frame_codes::Stream;

    #[test]
    fn what_a_client_may_send_is_held_to_less() {
        let mut reader = FrameReader::for_client();
        reader.receive(b"\x01\0\x01\0\x01");
        let error = FrameError::TooLong { kind: FrameKind::Start, len: 65_537 };
        assert_eq!(reader.next_frame(), Err(error));
        let mut reader = FrameReader::for_client();
        reader.receive(b"\x01\0\x01\0\0");
        assert_eq!(reader.next_frame(), Ok(None));
    }

    #[test]
    fn more_data_than_a_frame_holds_makes_several() {
        let data = vec![7; MAX_DATA + 1];
        let stream = Stream::Stdout;
        let mut wire = Vec::new();
        Frame::Data { stream, data: &data }.encode(&mut wire);
        let mut reader = FrameReader::for_client();
        reader.receive(&wire);
        let first = Frame::Data { stream, data: &data[..MAX_DATA] };
        assert_eq!(reader.next_frame(), Ok(Some(first)));
        assert_eq!(reader.next_frame(), Ok(Some(Frame::Data { stream, data: &[7] })));
        assert_eq!(reader.next_frame(), Ok(None));
        assert!(!reader.is_within_frame());
        assert_eq!(wire.get(..6), Some(&data_head(stream, MAX_DATA)[..]));
        assert_eq!(data_head(stream, MAX_DATA), *b"\x02\0\x01\0\0\x01");
    }

    #[test]
    fn more_of_a_client_than_a_frame_holds_makes_several() {
        let data = vec![7; MAX_TUNNEL + 1];
        let mut wire = Vec::new();
        Frame::Tunnel { serial: 7, data: &data }.encode(&mut wire);
        let mut reader = FrameReader::new();
        reader.receive(&wire);
        let first = Frame::Tunnel { serial: 7, data: &data[..MAX_TUNNEL] };
        assert_eq!(reader.next_frame(), Ok(Some(first)));
        assert_eq!(reader.next_frame(), Ok(Some(Frame::Tunnel { serial: 7, data: &[7] })));
        assert_eq!(reader.next_frame(), Ok(None));
        assert!(!reader.is_within_frame());
    }
}
