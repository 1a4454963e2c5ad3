//! Sans-IO codecs for the connections between shim, proxy and runner.
//!
//! In scope: HTTP/1.1 of protocol versions 1 and 2 for servers ([`RequestReader`], `encode_*`) and
//! clients ([`ExecCall`], [`ResponseReader`]); the chunked coding with trailers; forms
//! ([`decode_form`]); the version 3 request ([`Upgrade`]) and its body ([`parse_invocation`]); frames
//! ([`Frame`], [`FrameReader`]) and their flow control ([`SendWindow`], [`ReceiveWindow`], [`NetFlow`]);
//! and the limits on peers ([`Limits`]).
//!
//! Out of scope: sockets, time, accepted paths and headers (`aifo-proxy`), and executing calls.
//!
//! All readers have the same interface. `buffer()` takes bytes without a copy, `receive()` copies
//! them; `next_event()` returns events until it needs more data; `receive_eof()` marks the end of
//! the connection. The events do not depend on how the bytes are split.
//!
//! One version 2 call with both ends in memory:
//!
//! ```
//! use aifo_types::{ExecId, Token};
//! use aifo_wire::*;
//!
//! // The client writes its request ..
//! let call = ExecCall {
//!     endpoint: &"unix:///run/aifo.sock".parse()?,
//!     token: &Token::parse("TOKEN").unwrap(),
//!     id: &ExecId::parse(b"e1")?,
//!     tool: b"make",
//!     cwd: b"/workspace",
//!     args: &[b"echo".to_vec(), b"hello".to_vec()],
//! };
//! let mut request = Vec::new();
//! call.encode(2, &mut request);
//! assert!(request.ends_with(b"\r\n\r\ntool=make&cwd=%2Fworkspace&arg=echo&arg=hello"));
//!
//! // .. the server reads it ..
//! let mut server = RequestReader::new(Limits::default());
//! assert_eq!(server.next_event()?, RequestEvent::NeedData);
//! server.receive(&request);
//! let RequestEvent::Head(head) = server.next_event()? else { panic!("no head") };
//! assert_eq!((head.path(), head.header("x-aifo-proto")), ("/exec", Some(&b"2"[..])));
//! let RequestEvent::Body(body) = server.next_event()? else { panic!("no body") };
//! let form = decode_form(&body);
//! assert_eq!(form.last("tool"), Some(&b"make"[..]));
//! assert_eq!(form.all("arg").collect::<Vec<_>>(), [b"echo", &b"hello"[..]]);
//!
//! // .. and streams the tool output and exit code ..
//! let mut answer = Vec::new();
//! encode_stream_head(&mut answer, Some(&ExecId::parse(b"e1")?));
//! encode_chunk(&mut answer, b"hello\n");
//! encode_stream_end(&mut answer, 0);
//! assert!(answer.ends_with(b"\r\n\r\n6\r\nhello\n\r\n0\r\nX-Exit-Code: 0\r\n\r\n"));
//!
//! // .. which the client reads.
//! let mut client = ResponseReader::new(Limits::default());
//! client.receive(&answer);
//! let ResponseEvent::Head(head) = client.next_event()? else { panic!("no head") };
//! assert_eq!((head.status, head.exec_id.as_deref()), (200, Some("e1")));
//! assert_eq!(client.next_event()?, ResponseEvent::Data(b"hello\n"));
//! assert!(matches!(client.next_event()?, ResponseEvent::End { exit_code: Some(0), .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Architecture invariant: bytes in, events out. This crate uses no sockets, files, clocks or
//! threads. No input makes it panic or buffer more than [`Limits`] allows.

mod buffer;
mod call;
mod chunked;
mod credit;
mod exit;
mod form;
mod frame;
mod frame_codes;
mod frame_error;
mod frame_limits;
mod frame_payload;
mod frame_reader;
mod framing;
mod head;
mod invocation;
mod limits;
mod message_error;
mod net_flow;
mod net_frame;
mod payload;
mod request_body;
mod request_head;
mod request_reader;
mod response;
mod response_body;
mod response_head;
mod response_reader;
mod short_answer;
mod start;

pub use buffer::Buffer;
pub use call::{ClientMode, ExecCall, JudgeCall, Upgrade, encode_notify, encode_signal};
pub use chunked::{CHUNK_END, ChunkError, ChunkedDecoder, Step, encode_chunk, encode_chunk_head};
pub use credit::{CreditError, ReceiveWindow, SendWindow, WINDOW};
pub use exit::{CallNote, Exit, ResourceUsage, SidecarLimit};
pub use form::{Form, decode_form, encode_form};
pub use frame::{DATA_HEAD, FRAMES_VERSION, Frame, Listener, Setup, data_head, encode_frame_head};
pub use frame_codes::{
    CancelCause, Delivery, FileAccess, FrameKind, Interrupt, ListenerReport, Loopback, OnlyCall,
    SocketResult, SocketType, Stream,
};
pub use frame_error::FrameError;
pub use frame_limits::{
    MAX_DATA, MAX_DATAGRAM, MAX_INVOCATION, MAX_LISTEN_PORTS, MAX_LISTENERS, MAX_NET_CONNECTIONS,
    MAX_NET_DATA, MAX_PAYLOAD, MAX_START, MAX_TUNNEL,
};
pub use frame_reader::FrameReader;
pub use framing::FramingError;
pub use invocation::{
    InvalidInvocation, MAX_CONTROL_CHARACTERS, MAX_RESOURCE, count_strings, encode_invocation,
    parse_invocation,
};
pub use limits::Limits;
pub use message_error::MessageError;
pub use net_flow::{NetBytes, NetFlow, NetFlowError};
pub use net_frame::NetFrame;
pub use request_head::{RequestHead, Version};
pub use request_reader::{RequestEvent, RequestReader};
pub use response::{
    CONTINUE, encode_approval, encode_no_content, encode_progress, encode_refusal, encode_response,
    encode_response_head, encode_run_in_place, encode_run_without_network, encode_stream_end,
    encode_stream_end_limited, encode_stream_end_unknown, encode_stream_head, encode_upgrade_head,
    is_run_in_place,
};
pub use response_body::BodyKind;
pub use response_head::{ResponseHead, RunPermission};
pub use response_reader::{ResponseEvent, ResponseReader, ToolEnd};
pub use short_answer::{ShortAnswer, parse_short_answer};
pub use start::{
    ClientHandover, ClientTransport, Environment, OutsideDirectory, Program, Reports, Start,
    StartError, StartErrorCause,
};

// For test code that integration tests share.
#[cfg(test)]
extern crate self as aifo_wire;
#[cfg(test)]
#[path = "../tests/decode/mod.rs"]
mod decode;
