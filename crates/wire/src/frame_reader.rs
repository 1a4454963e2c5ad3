//! Reads frames from a stream.

use crate::buffer::Buffer;
use crate::frame::Frame;
use crate::frame_codes::FrameKind;
use crate::frame_error::FrameError;
use crate::frame_limits::{MAX_PAYLOAD, MAX_START};

/// Reads frames from a stream of bytes. It buffers at most one frame and one read.
#[derive(Debug)]
pub struct FrameReader {
    buffer: Buffer,
    /// Maximum payload of a `Start`.
    max_start: usize,
    /// Bytes at the buffer's front that the last frame borrowed.
    spent: usize,
    failed: Option<FrameError>,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReader {
    /// Creates a reader for a control connection.
    pub fn new() -> Self {
        FrameReader { buffer: Buffer::new(), max_start: MAX_START, spent: 0, failed: None }
    }

    /// Creates a reader for a client connection. A `Start` is not expected there, so its maximum
    /// payload is [`MAX_PAYLOAD`] too.
    pub fn for_client() -> Self {
        FrameReader { max_start: MAX_PAYLOAD, ..FrameReader::new() }
    }

    /// Returns the buffer for reads from the stream.
    pub fn buffer(&mut self) -> &mut Buffer {
        self.buffer.consume(std::mem::take(&mut self.spent));
        &mut self.buffer
    }

    /// Appends a copy of `bytes` to the buffer.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer().extend(bytes);
    }

    /// Returns whether the buffer ends within a frame, which the end of the stream would truncate.
    pub fn is_within_frame(&self) -> bool {
        self.buffer.len() > self.spent
    }

    /// Returns the next frame, or `None` if more bytes are needed. An error is returned again by
    /// further calls.
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

/// Splits off the first frame. The length is checked before the payload arrives.
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
    use crate::frame_codes::Stream;
    use crate::frame_limits::{MAX_DATA, MAX_TUNNEL};

    #[test]
    fn clients_have_a_lower_limit() {
        let mut reader = FrameReader::for_client();
        reader.receive(b"\x01\0\x01\0\x01");
        let error = FrameError::TooLong { kind: FrameKind::Start, len: 65_537 };
        assert_eq!(reader.next_frame(), Err(error));
        let mut reader = FrameReader::for_client();
        reader.receive(b"\x01\0\x01\0\0");
        assert_eq!(reader.next_frame(), Ok(None));
    }

    #[test]
    fn long_data_is_split_into_frames() {
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
    fn long_tunnel_data_is_split_into_frames() {
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
