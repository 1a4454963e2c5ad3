//! Reads request bodies, within limits: collected or discarded.

use crate::buffer::{Buffer, Input};
use crate::chunked::{ChunkError, ChunkedDecoder, Step};
use crate::framing::Framing;
use crate::limits::Limits;
use crate::message_error::MessageError;

/// An incomplete request body.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// Bytes still to be read.
    Length(u64),
    Chunked(Box<ChunkedBody>),
}

/// The treatment of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMode {
    Collect,
    Discard,
}

impl RequestBody {
    pub(crate) fn new(framing: Framing, limits: &Limits) -> Self {
        match framing {
            Framing::Unmarked => RequestBody::Length(0),
            Framing::Length(length) => RequestBody::Length(length),
            Framing::Chunked => RequestBody::Chunked(Box::new(ChunkedBody::new(limits))),
        }
    }

    /// Returns the memory of the body after `more` bytes, besides the buffer.
    pub(crate) fn memory_after(&self, more: usize) -> usize {
        match self {
            RequestBody::Chunked(body) => match &body.content {
                // A vector that grows may have twice the capacity.
                Content::Kept(content) => content.len().saturating_add(more).saturating_mul(2),
                Content::Dropped => 0,
            },
            RequestBody::Length(_) => 0,
        }
    }

    /// Returns the complete body, empty if discarded; `None` if more data is needed.
    pub(crate) fn read(
        &mut self,
        buffer: &mut Buffer,
        limits: &mut Limits,
        input: Input,
        mode: BodyMode,
    ) -> Result<Option<Vec<u8>>, MessageError> {
        match (self, mode) {
            (RequestBody::Length(left), BodyMode::Discard) => {
                Ok(discard_length(left, buffer, limits, input))
            }
            (RequestBody::Length(length), BodyMode::Collect) => {
                collect_length(*length, buffer, limits, input)
            }
            (RequestBody::Chunked(body), mode) => read_chunked(body, buffer, limits, input, mode),
        }
    }
}

fn collect_length(
    length: u64,
    buffer: &mut Buffer,
    limits: &Limits,
    input: Input,
) -> Result<Option<Vec<u8>>, MessageError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > limits.max_body {
        return Err(MessageError::BodyTooLarge);
    }
    if buffer.len() >= length {
        return Ok(Some(buffer.take(length)));
    }
    input.check_open()?;
    Ok(None)
}

fn discard_length(
    left: &mut u64,
    buffer: &mut Buffer,
    limits: &mut Limits,
    input: Input,
) -> Option<Vec<u8>> {
    let length = usize::try_from(*left).unwrap_or(usize::MAX);
    let wanted = length.min(limits.max_drain);
    let dropped = wanted.min(buffer.len());
    buffer.consume(dropped);
    // The limit applies to the whole body, not to one read.
    limits.max_drain -= dropped;
    *left = (length - dropped) as u64;
    match input {
        Input::Open if dropped < wanted => None,
        _ => Some(Vec::new()),
    }
}

fn read_chunked(
    body: &mut ChunkedBody,
    buffer: &mut Buffer,
    limits: &Limits,
    input: Input,
    mode: BodyMode,
) -> Result<Option<Vec<u8>>, MessageError> {
    if mode == BodyMode::Discard {
        body.content = Content::Dropped;
    }
    let stop = body.read(buffer, limits, input);
    if let Stop::NeedData = stop {
        return Ok(None);
    }
    match (mode, std::mem::take(&mut body.content), stop) {
        (BodyMode::Discard, ..) => Ok(Some(Vec::new())),
        (_, Content::Dropped, _) | (.., Stop::Bound) => Err(MessageError::BodyTooLarge),
        (_, Content::Kept(body), Stop::End) => Ok(Some(body)),
        (.., Stop::Malformed(error)) => Err(error.into()),
        (.., Stop::Eof | Stop::NeedData) => Err(MessageError::Truncated),
    }
}

/// An incomplete chunked body.
#[derive(Debug)]
pub(crate) struct ChunkedBody {
    decoder: ChunkedDecoder,
    content: Content,
    /// Bytes read from the connection, including framing.
    encoded: usize,
}

/// The content of a chunked body so far. One that is too large is dropped but still read, so that
/// the client finishes writing before it is refused.
#[derive(Debug)]
enum Content {
    Kept(Vec<u8>),
    Dropped,
}

impl Default for Content {
    fn default() -> Self {
        Content::Kept(Vec::new())
    }
}

/// Why reading a chunked body stopped.
enum Stop {
    NeedData,
    End,
    Malformed(ChunkError),
    /// The body exceeds [`Limits::max_drain`].
    Bound,
    /// The connection ended within the body.
    Eof,
}

impl ChunkedBody {
    fn new(limits: &Limits) -> Self {
        ChunkedBody {
            decoder: ChunkedDecoder::new(limits),
            content: Content::default(),
            encoded: 0,
        }
    }

    /// Decodes what is buffered.
    fn read(&mut self, buffer: &mut Buffer, limits: &Limits, input: Input) -> Stop {
        loop {
            // The decoder never sees bytes beyond the limit: the result must not depend on how
            // reads split the bytes.
            let bound = limits.max_drain.saturating_sub(self.encoded).min(buffer.len());
            let mut bytes = buffer.as_slice().get(..bound).unwrap_or_default();
            let step = self.decoder.decode(&mut bytes);
            let used = bound - bytes.len();
            let stop = match step {
                Ok(Step::Data(data)) => {
                    self.content.append(data, limits.max_body);
                    None
                }
                Ok(Step::End) => Some(Stop::End),
                Ok(Step::NeedData) => Some(match input {
                    _ if buffer.len() > used => Stop::Bound,
                    Input::Ended => Stop::Eof,
                    Input::Open => Stop::NeedData,
                }),
                Err(error) => Some(Stop::Malformed(error)),
            };
            buffer.consume(used);
            self.encoded += used;
            if let Some(stop) = stop {
                return stop;
            }
        }
    }
}

impl Content {
    fn append(&mut self, data: &[u8], max_body: usize) {
        match self {
            Content::Kept(body) if body.len().saturating_add(data.len()) <= max_body => {
                body.extend_from_slice(data);
            }
            _ => *self = Content::Dropped,
        }
    }
}

impl Input {
    /// Errors: the connection has ended.
    pub(crate) fn check_open(self) -> Result<(), MessageError> {
        match self {
            Input::Open => Ok(()),
            Input::Ended => Err(MessageError::Truncated),
        }
    }
}
