//! Runner frames: what proxy and runner say to each other (`spec/runner.md#frames`).
//!
//! On the wire a frame is `kind u8, length u32, payload`; all numbers are big-endian. A control
//! connection and a client's connection carry different kinds by the same codec.

use aifo_types::{ExecId, Signal, WindowSize};

use crate::exit::Exit;
use crate::frame_codes::{CancelCause, Delivery, FrameKind, Interrupt, Stream};
use crate::frame_reader::FrameError;
use crate::invocation::{Stdio, decode_size, encode_size};
use crate::payload::{Payload, push_bytes, push_strings};
use crate::start::{Start, StartError};

/// The largest payload of every frame but [`Frame::Start`], in bytes.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// The most data that one frame carries.
pub const MAX_DATA: usize = MAX_PAYLOAD - 1;
/// The most of a client's bytes that one frame carries over a control connection.
pub const MAX_TUNNEL: usize = MAX_PAYLOAD - 4;
/// The largest payload of [`Frame::Start`], in bytes: a whole invocation, which is above what the
/// kernel takes as arguments and environment, and what the proxy adds.
pub const MAX_START: usize = MAX_INVOCATION + 128 * 1024;
/// The largest invocation, in bytes.
pub const MAX_INVOCATION: usize = 4 * 1024 * 1024;

/// One frame, its bulk borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Proxy to runner: run this. Descriptors come with its first byte: the client's connection if
    /// there is a response_head for it, then those that the invocation says are passed.
    Start(Box<Start>),
    /// Bytes of a stream, at most [`MAX_DATA`] and at least one. Encoding more makes several frames.
    Data {
        /// Which stream.
        stream: Stream,
        /// What was read from it.
        data: &'a [u8],
    },
    /// No more comes on a stream, or nobody reads it any more.
    Closed {
        /// Which stream.
        stream: Stream,
    },
    /// So much more may be sent on a stream.
    Credit {
        /// Which stream.
        stream: Stream,
        /// How many bytes.
        bytes: u32,
    },
    /// Proxy to runner: end the exec, by escalation.
    Cancel {
        /// Which exec.
        serial: u32,
        /// Why.
        cause: CancelCause,
        /// Whether the escalation begins with INT.
        interrupt: Interrupt,
    },
    /// Client to runner: deliver a signal to the tool's process group.
    Signal {
        /// Its Linux number.
        number: u8,
    },
    /// Client to runner: the terminal has another size.
    Resize(WindowSize),
    /// From the runner: the tool runs. To the proxy if it wants to know, and to the client if the
    /// runner has its connection.
    Started {
        /// Which exec.
        serial: u32,
        /// Its process id as the runner sees it.
        pid: u32,
        /// What 0, 1 and 2 have become.
        stdio: [Stdio; 3],
    },
    /// From the runner: the tool ended. To the client, last, if the runner has its connection; then,
    /// and always, to the proxy.
    Exit {
        /// Which exec.
        serial: u32,
        /// How.
        exit: Exit,
    },
    /// Runner to proxy: the tool could not be started.
    StartError {
        /// Which exec.
        serial: u32,
        /// Why.
        error: StartError,
    },
    /// Runner to client: the tool was stopped.
    Stopped {
        /// By which signal.
        signal: u8,
        /// How many CONT of the client had been delivered then.
        resumed: u32,
    },
    /// Runner to proxy: the client has left; its tool is being ended.
    Left {
        /// Which exec.
        serial: u32,
    },
    /// Bytes of a client's connection that the control connection carries, at least one, and at most
    /// [`MAX_TUNNEL`]. Encoding more makes several frames.
    Tunnel {
        /// Which exec's client.
        serial: u32,
        /// What one side sent, cut anywhere.
        data: &'a [u8],
    },
    /// The end of a client's connection that the control connection carries. Proxy to runner: the
    /// client has left. Runner to proxy, last: the client has been told everything.
    TunnelEnd {
        /// Which exec's client.
        serial: u32,
    },
    /// Runner to proxy, first on the control connection: ready.
    Hello {
        /// The version of these frames, see [`FRAMES_VERSION`].
        version: u8,
    },
    /// Proxy to runner, first on the control connection: the session's places.
    Setup(Setup),
    /// Proxy to runner: deliver a signal to the exec of this id.
    Kill {
        /// Matches the answer to the question.
        serial: u32,
        /// What to deliver to the exec's process group.
        signal: Signal,
        /// Which exec.
        id: ExecId,
    },
    /// Runner to proxy: the answer to [`Frame::Kill`].
    Killed {
        /// The question's.
        serial: u32,
        /// What came of it.
        found: Delivery,
    },
    /// Proxy to runner: end if nothing runs below you.
    Retire,
    /// Runner to proxy: the answer to [`Frame::Retire`] if something does; else the runner has gone.
    Busy,
}

/// The version of the frames described here.
pub const FRAMES_VERSION: u8 = 3;

/// What a runner is and where the session's places are, as absolute paths in its own view. A place may
/// have several names there, and all count: a container has the workspace under a short one and under
/// its real one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The workspace root, at least one name; the first is where a call without a directory runs.
    pub workspace: Vec<Vec<u8>>,
    /// The session's shared temporary directory; with no name only the workspace holds.
    pub tmp: Vec<Vec<u8>>,
    /// The kind of the sidecar.
    pub kind: String,
}

impl Frame<'_> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Frame::Data { stream, data } => {
                let pieces = data.chunks(MAX_DATA);
                pieces.for_each(|data| Frame::Data { stream, data }.encode_one(out));
            }
            Frame::Tunnel { serial, data } => {
                let pieces = data.chunks(MAX_TUNNEL);
                pieces.for_each(|data| Frame::Tunnel { serial, data }.encode_one(out));
            }
            _ => self.encode_one(out),
        }
    }

    fn encode_one(&self, out: &mut Vec<u8>) {
        encode_frame_head(out, self.kind(), 0);
        let payload = out.len();
        self.encode_payload(out);
        // The length is known only now; it stands right before the payload.
        let length = wire_length(out.len() - payload);
        out[payload - length.len()..payload].copy_from_slice(&length);
    }

    /// What the frame is.
    pub fn kind(&self) -> FrameKind {
        match self {
            Frame::Start(_) => FrameKind::Start,
            Frame::Data { .. } => FrameKind::Data,
            Frame::Closed { .. } => FrameKind::Closed,
            Frame::Credit { .. } => FrameKind::Credit,
            Frame::Cancel { .. } => FrameKind::Cancel,
            Frame::Signal { .. } => FrameKind::Signal,
            Frame::Resize(_) => FrameKind::Resize,
            Frame::Started { .. } => FrameKind::Started,
            Frame::Exit { .. } => FrameKind::Exit,
            Frame::StartError { .. } => FrameKind::StartError,
            Frame::Stopped { .. } => FrameKind::Stopped,
            Frame::Left { .. } => FrameKind::Left,
            Frame::Tunnel { .. } => FrameKind::Tunnel,
            Frame::TunnelEnd { .. } => FrameKind::TunnelEnd,
            Frame::Hello { .. } => FrameKind::Hello,
            Frame::Setup(_) => FrameKind::Setup,
            Frame::Kill { .. } => FrameKind::Kill,
            Frame::Killed { .. } => FrameKind::Killed,
            Frame::Retire => FrameKind::Retire,
            Frame::Busy => FrameKind::Busy,
        }
    }

    fn encode_payload(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Start(start) => start.encode(out),
            Frame::Data { stream, data } => {
                out.push(stream.code());
                out.extend_from_slice(data);
            }
            Frame::Closed { stream } => out.push(stream.code()),
            Frame::Credit { stream, bytes } => {
                out.push(stream.code());
                out.extend(bytes.to_be_bytes());
            }
            Frame::Cancel { serial, cause, interrupt } => {
                out.extend(serial.to_be_bytes());
                out.extend([cause.code(), interrupt.code()]);
            }
            Frame::Signal { number } => out.push(*number),
            Frame::Resize(size) => encode_size(size, out),
            Frame::Started { serial, pid, stdio } => {
                out.extend(serial.to_be_bytes());
                out.extend(pid.to_be_bytes());
                out.extend(stdio.map(Stdio::code));
            }
            Frame::Exit { serial, exit } => {
                out.extend(serial.to_be_bytes());
                exit.encode(out);
            }
            Frame::StartError { serial, error } => {
                out.extend(serial.to_be_bytes());
                error.encode(out);
            }
            Frame::Stopped { signal, resumed } => {
                out.push(*signal);
                out.extend(resumed.to_be_bytes());
            }
            Frame::Tunnel { serial, data } => {
                out.extend(serial.to_be_bytes());
                out.extend_from_slice(data);
            }
            Frame::Left { serial } | Frame::TunnelEnd { serial } => {
                out.extend(serial.to_be_bytes());
            }
            Frame::Hello { version } => out.push(*version),
            Frame::Setup(setup) => {
                push_strings(out, &setup.workspace);
                push_strings(out, &setup.tmp);
                push_bytes(out, setup.kind.as_bytes());
            }
            Frame::Kill { serial, signal, id } => {
                out.extend(serial.to_be_bytes());
                out.push(signal.number());
                out.extend_from_slice(id.as_str().as_bytes());
            }
            Frame::Killed { serial, found } => {
                out.extend(serial.to_be_bytes());
                out.push(found.code());
            }
            Frame::Retire | Frame::Busy => {}
        }
    }
}

impl<'a> Frame<'a> {
    /// Reads a frame's payload, all of it.
    pub(crate) fn decode(kind: FrameKind, payload: &'a [u8]) -> Result<Self, FrameError> {
        let mut fields = Payload::new(payload);
        let frame = Self::decode_fields(kind, &mut fields);
        frame.filter(|_| fields.is_empty()).ok_or(FrameError::Malformed(kind))
    }

    fn decode_fields(kind: FrameKind, fields: &mut Payload<'a>) -> Option<Self> {
        Some(match kind {
            FrameKind::Start => Frame::Start(Box::new(Start::decode(fields)?)),
            FrameKind::Data => {
                let stream = Stream::from_code(fields.u8()?)?;
                Frame::Data { stream, data: Some(fields.rest()).filter(|data| !data.is_empty())? }
            }
            FrameKind::Closed => Frame::Closed { stream: Stream::from_code(fields.u8()?)? },
            FrameKind::Credit => {
                Frame::Credit { stream: Stream::from_code(fields.u8()?)?, bytes: fields.u32()? }
            }
            FrameKind::Cancel => Frame::Cancel {
                serial: fields.u32()?,
                cause: CancelCause::from_code(fields.u8()?)?,
                interrupt: Interrupt::from_code(fields.u8()?)?,
            },
            FrameKind::Signal => {
                Frame::Signal { number: fields.u8().filter(|n| (1..=MAX_SIGNAL).contains(n))? }
            }
            FrameKind::Resize => Frame::Resize(decode_size(fields)?),
            FrameKind::Started => Frame::Started {
                serial: fields.u32()?,
                pid: fields.u32()?,
                stdio: Stdio::decode_all(fields)?,
            },
            FrameKind::Exit => Frame::Exit { serial: fields.u32()?, exit: Exit::decode(fields)? },
            FrameKind::StartError => {
                Frame::StartError { serial: fields.u32()?, error: StartError::decode(fields)? }
            }
            FrameKind::Stopped => Frame::Stopped { signal: fields.u8()?, resumed: fields.u32()? },
            FrameKind::Left => Frame::Left { serial: fields.u32()? },
            FrameKind::Tunnel => {
                let serial = fields.u32()?;
                Frame::Tunnel { serial, data: Some(fields.rest()).filter(|data| !data.is_empty())? }
            }
            FrameKind::TunnelEnd => Frame::TunnelEnd { serial: fields.u32()? },
            FrameKind::Hello => Frame::Hello { version: fields.u8()? },
            FrameKind::Setup => Frame::Setup(Setup {
                workspace: fields.strings(Payload::absolute).filter(|names| !names.is_empty())?,
                tmp: fields.strings(Payload::absolute)?,
                kind: String::from_utf8(fields.bytes()?.to_vec()).ok()?,
            }),
            FrameKind::Kill => Frame::Kill {
                serial: fields.u32()?,
                signal: Signal::from_number(fields.u8()?)?,
                id: ExecId::parse(fields.rest()).ok()?,
            },
            FrameKind::Killed => {
                Frame::Killed { serial: fields.u32()?, found: Delivery::from_code(fields.u8()?)? }
            }
            FrameKind::Retire => Frame::Retire,
            FrameKind::Busy => Frame::Busy,
        })
    }
}

/// `SIGRTMAX`, the last signal that Linux knows.
const MAX_SIGNAL: u8 = 64;

/// Appends the head of a frame whose payload, of `len` bytes, goes out separately.
pub fn encode_frame_head(out: &mut Vec<u8>, kind: FrameKind, len: usize) {
    out.push(kind.code());
    out.extend(wire_length(len));
}

/// The head of a [`Frame::Data`] of `len` bytes, for a `writev` with the data: `len` must be at most
/// [`MAX_DATA`], or the peer refuses the frame.
pub fn data_head(stream: Stream, len: usize) -> [u8; DATA_HEAD] {
    let [a, b, c, d] = wire_length(len.saturating_add(1));
    [FrameKind::Data.code(), a, b, c, d, stream.code()]
}

/// Bytes before the data in a [`Frame::Data`].
pub const DATA_HEAD: usize = 6;

fn wire_length(len: usize) -> [u8; 4] {
    // Beyond u32 is beyond every limit, too; the peer refuses both.
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}
