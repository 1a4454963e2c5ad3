//! Collecting a request's chunked body, within bounds.

use crate::buffer::{Buffer, Input};
use crate::chunked::{ChunkError, ChunkedDecoder, Step};
use crate::limits::Limits;

/// A chunked body as far as it has come.
#[derive(Debug)]
pub(crate) struct ChunkedBody {
    decoder: ChunkedDecoder,
    pub(crate) content: Content,
    /// Bytes taken from the connection, framing included.
    encoded: usize,
}

/// What a chunked body has held so far. Once too large it is read on, to answer a client that has
/// finished writing, but no longer kept.
#[derive(Debug)]
pub(crate) enum Content {
    Kept(Vec<u8>),
    Dropped,
}

impl Default for Content {
    fn default() -> Self {
        Content::Kept(Vec::new())
    }
}

/// Why no more of a chunked body is read, for now or for good.
pub(crate) enum Stop {
    NeedData,
    End,
    Malformed(ChunkError),
    /// [`Limits::max_drain`] is used up.
    Bound,
    /// The connection ended first.
    Eof,
}

impl ChunkedBody {
    pub(crate) fn new(limits: &Limits) -> Self {
        ChunkedBody {
            decoder: ChunkedDecoder::new(limits),
            content: Content::default(),
            encoded: 0,
        }
    }

    /// Decodes what is buffered.
    pub(crate) fn read(&mut self, buffer: &mut Buffer, limits: &Limits, input: Input) -> Stop {
        loop {
            // The decoder never sees past the bound, so that where reads happen to be cut cannot
            // change the outcome.
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
