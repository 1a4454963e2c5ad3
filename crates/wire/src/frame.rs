//! Frames of control and client connections (`spec/runner.md#frames`).
//!
//! On the wire a frame is `kind u8, length u32, payload`; numbers are big-endian. The two
//! connections carry different kinds.

use aifo_types::{ExecId, Signal, Stdio, WindowSize};

use crate::exit::Exit;
use crate::frame_codes::{CancelCause, Delivery, FrameKind, Interrupt, Stream};
use crate::frame_error::FrameError;
use crate::frame_limits::{MAX_DATA, MAX_LISTEN_PORTS, MAX_TUNNEL};
use crate::invocation::{decode_size, decode_stdio, encode_size, encode_stdio};
use crate::net_frame::NetFrame;
use crate::payload::{Payload, push_bytes, push_strings};
use crate::start::{Start, StartError};

/// One frame; data is borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Proxy to runner: start a tool. Descriptors come with the first byte: the client's connection
    /// if [`Start::client`] is set, then the invocation's passed descriptors.
    Start(Box<Start>),
    /// 1 to [`MAX_DATA`] bytes of a stream. Longer data is encoded as several frames.
    Data {
        /// The stream.
        stream: Stream,
        /// The bytes.
        data: &'a [u8],
    },
    /// The sender closed its end of a stream, for writing or for reading.
    Closed {
        /// The stream.
        stream: Stream,
    },
    /// Grants credit on a stream.
    Credit {
        /// The stream.
        stream: Stream,
        /// The credit in bytes.
        bytes: u32,
    },
    /// Proxy to runner: end the exec with signal escalation.
    Cancel {
        /// The exec.
        serial: u32,
        /// The reason.
        cause: CancelCause,
        /// First step of the escalation.
        interrupt: Interrupt,
    },
    /// Client to runner: send a signal to the tool's process group.
    Signal {
        /// The signal's Linux number.
        number: u8,
    },
    /// Client to runner: the terminal was resized.
    Resize(WindowSize),
    /// The tool runs. Runner to proxy if [`Start::reports`] requests it, and to the client if the
    /// runner has its connection.
    Started {
        /// The exec.
        serial: u32,
        /// The tool's process id in the runner's view.
        pid: u32,
        /// The tool's descriptors 0, 1 and 2.
        stdio: [Stdio; 3],
    },
    /// The tool ended. First to the client, as its last frame, if the runner has its connection;
    /// then always to the proxy.
    Exit {
        /// The exec.
        serial: u32,
        /// The exit status and usage.
        exit: Exit,
    },
    /// Runner to proxy: the tool could not be started.
    StartError {
        /// The exec.
        serial: u32,
        /// The reason.
        error: StartError,
    },
    /// Runner to client: the tool was stopped.
    Stopped {
        /// The signal that stopped it.
        signal: u8,
        /// The number of the client's CONT signals delivered before.
        resumed: u32,
    },
    /// Runner to proxy: the client disconnected; its tool is being ended.
    Left {
        /// The exec.
        serial: u32,
    },
    /// 1 to [`MAX_TUNNEL`] bytes of a client connection, carried over the control connection.
    /// Longer data is encoded as several frames.
    Tunnel {
        /// The client's exec.
        serial: u32,
        /// The bytes of either side, split anywhere.
        data: &'a [u8],
    },
    /// The end of a tunnelled client connection. Proxy to runner: the client disconnected. Runner
    /// to proxy: everything has been sent to the client.
    TunnelEnd {
        /// The client's exec.
        serial: u32,
    },
    /// Runner to proxy, first on the control connection: ready.
    Hello {
        /// The frames' version, [`FRAMES_VERSION`].
        version: u8,
    },
    /// Proxy to runner, first on the control connection: the session's directories.
    Setup(Setup),
    /// Proxy to runner: send a signal to an exec.
    Kill {
        /// Matches [`Frame::Killed`] to this request.
        serial: u32,
        /// The signal for the exec's process group.
        signal: Signal,
        /// The exec.
        id: ExecId,
    },
    /// Runner to proxy: the response to [`Frame::Kill`].
    Killed {
        /// The request's serial.
        serial: u32,
        /// The result.
        found: Delivery,
    },
    /// Proxy to runner: exit if nothing runs.
    Retire,
    /// Runner to proxy: the response to [`Frame::Retire`] if tools run; otherwise the runner exits.
    Busy,
    /// Proxy to runner, once, before any tool: bind the listeners of this network stack
    /// (`spec/network.md#passed-listeners`).
    Listen {
        /// The TCP ports besides DNS, at most [`MAX_LISTEN_PORTS`], none of them 0.
        ports: Vec<u16>,
    },
    /// Runner to proxy: the response to [`Frame::Listen`]. If `error` is empty, the descriptors come
    /// with the first byte: DNS over UDP, DNS over TCP, then one for each port.
    Listening {
        /// Why the runner could not bind; empty if it did.
        error: String,
    },
    /// Both: connections of the runner's network stack, where no descriptors pass.
    Net(NetFrame<'a>),
}

/// The version of these frames.
pub const FRAMES_VERSION: u8 = 5;

/// A runner's kind and the session's directories, as absolute paths in the runner's view. A
/// directory may have several paths: a container has the workspace at a short path and at its real
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The paths of the workspace root, at least one. The first is the default directory of calls.
    pub workspace: Vec<Vec<u8>>,
    /// The paths of the session's shared temporary directory, if there is one.
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
            Frame::Net(frame) => {
                frame.pieces().for_each(|piece| Frame::Net(piece).encode_one(out));
            }
            _ => self.encode_one(out),
        }
    }

    fn encode_one(&self, out: &mut Vec<u8>) {
        encode_frame_head(out, self.kind(), 0);
        let payload = out.len();
        self.encode_payload(out);
        // Fill in the length, right before the payload.
        let length = wire_length(out.len() - payload);
        out[payload - length.len()..payload].copy_from_slice(&length);
    }

    /// Returns the kind of the frame.
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
            Frame::Listen { .. } => FrameKind::Listen,
            Frame::Listening { .. } => FrameKind::Listening,
            Frame::Net(frame) => frame.kind(),
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
                out.extend(encode_stdio(*stdio));
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
            Frame::Listen { ports } => out.extend(ports.iter().flat_map(|port| port.to_be_bytes())),
            Frame::Listening { error } => out.extend_from_slice(error.as_bytes()),
            Frame::Net(frame) => frame.encode_payload(out),
        }
    }
}

impl<'a> Frame<'a> {
    /// Decodes a complete payload.
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
                stdio: decode_stdio(fields)?,
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
            FrameKind::Listen => Frame::Listen { ports: decode_ports(fields)? },
            FrameKind::Listening => {
                Frame::Listening { error: String::from_utf8(fields.rest().to_vec()).ok()? }
            }
            FrameKind::NetOpen
            | FrameKind::NetData
            | FrameKind::NetEnd
            | FrameKind::NetReset
            | FrameKind::NetCredit
            | FrameKind::NetQuery
            | FrameKind::NetAnswer => Frame::Net(NetFrame::decode(kind, fields)?),
        })
    }
}

/// Reads ports to the end of the payload.
fn decode_ports(fields: &mut Payload<'_>) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    while !fields.is_empty() {
        ports.push(fields.u16().filter(|port| *port != 0)?);
    }
    Some(ports).filter(|ports| ports.len() <= MAX_LISTEN_PORTS)
}

/// Linux's `SIGRTMAX`.
const MAX_SIGNAL: u8 = 64;

/// Appends the head of a frame whose payload of `len` bytes is sent separately.
pub fn encode_frame_head(out: &mut Vec<u8>, kind: FrameKind, len: usize) {
    out.push(kind.code());
    out.extend(wire_length(len));
}

/// Returns the head of a [`Frame::Data`] of `len` bytes, for a `writev` with the data. `len` must
/// be at most [`MAX_DATA`], or the peer rejects the frame.
pub fn data_head(stream: Stream, len: usize) -> [u8; DATA_HEAD] {
    let [a, b, c, d] = wire_length(len.saturating_add(1));
    [FrameKind::Data.code(), a, b, c, d, stream.code()]
}

/// Bytes before the data in a [`Frame::Data`].
pub const DATA_HEAD: usize = 6;

fn wire_length(len: usize) -> [u8; 4] {
    // A length above u32 exceeds every limit; the peer rejects it.
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}
