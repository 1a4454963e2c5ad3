//! Reads response bodies.

use crate::buffer::Input;
use crate::chunked::{ChunkError, ChunkedDecoder, Step};
use crate::limits::Limits;

/// How a response's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// By the chunked coding.
    Chunked,
    /// By its length in bytes.
    Length(u64),
    /// By the end of the connection.
    UntilClose,
}

/// An incomplete response body.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Chunked(ChunkedDecoder),
    /// Bytes still to be read.
    Length(u64),
    UntilClose,
}

impl ResponseBody {
    pub(crate) fn new(kind: BodyKind, limits: &Limits) -> Self {
        match kind {
            BodyKind::Chunked => ResponseBody::Chunked(ChunkedDecoder::new(limits)),
            BodyKind::Length(length) => ResponseBody::Length(length),
            BodyKind::UntilClose => ResponseBody::UntilClose,
        }
    }

    pub(crate) fn decode<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        input: Input,
    ) -> Result<Step<'a>, ChunkError> {
        match self {
            ResponseBody::Chunked(decoder) => decoder.decode(bytes),
            ResponseBody::Length(0) => Ok(Step::End),
            ResponseBody::UntilClose if bytes.is_empty() && input == Input::Ended => Ok(Step::End),
            _ if bytes.is_empty() => Ok(Step::NeedData),
            ResponseBody::UntilClose => Ok(Step::Data(std::mem::take(bytes))),
            ResponseBody::Length(length) => {
                let wanted = usize::try_from(*length).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(wanted);
                *bytes = rest;
                *length -= data.len() as u64;
                Ok(Step::Data(data))
            }
        }
    }

    pub(crate) fn trailer(&self, name: &str) -> Option<&[u8]> {
        match self {
            ResponseBody::Chunked(decoder) => decoder.trailer(name),
            _ => None,
        }
    }
}
