//! The bytes between shim, proxy and runner, and nothing but the bytes.

mod body;
mod buffer;
mod call;
mod chunked;
mod client;
mod exit;
mod form;
mod frame;
mod frame_reader;
mod framing;
mod head;
mod limits;
mod payload;
mod request;
mod response;
mod server;
mod start;

pub use buffer::Buffer;
pub use call::{ExecCall, encode_signal};
pub use chunked::{CHUNK_END, ChunkError, ChunkedDecoder, Step, encode_chunk, encode_chunk_head};
pub use client::{BodyKind, ResponseError, ResponseEvent, ResponseHead, ResponseReader};
pub use exit::{Exit, Usage};
pub use form::{Form, decode_form, encode_form};
pub use frame::{
    CancelCause, Delivery, FRAMES_VERSION, Frame, FrameKind, Interrupt, MAX_PAYLOAD, MAX_START,
    Setup, encode_frame_head, stdout_head,
};
pub use frame_reader::{FrameError, FrameReader};
pub use framing::FramingError;
pub use limits::Limits;
pub use request::{RequestHead, Version};
pub use response::{
    CONTINUE, encode_answer, encode_answer_head, encode_no_content, encode_refusal,
    encode_stream_end, encode_stream_head,
};
pub use server::{Event, RequestError, RequestReader};
pub use start::{Elsewhere, Start, StartError, StartErrorCause};
