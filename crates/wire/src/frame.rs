//! Runner frames: what proxy and runner say to each other (`spec/runner.md#frames`).
//!
//! On the wire a frame is `kind u8, length u32, payload`; all numbers are big-endian. A control
//! connection and an exec channel carry different kinds by the same codec.

use aifo_types::{ExecId, Signal};

use crate::exit::Exit;
use crate::frame_reader::FrameError;
use crate::payload::{Payload, code_table, push_bytes};
use crate::start::{Start, StartError};

/// The largest payload of every frame but [`Frame::Start`], in bytes.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// The largest payload of [`Frame::Start`], in bytes: above what the kernel takes as argv.
pub const MAX_START: usize = 4 * 1024 * 1024;

/// One frame, its bulk borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Proxy to runner, first on an exec channel: run this.
    Start(Start),
    /// Proxy to runner: end the exec, by escalation.
    Cancel {
        /// Why.
        cause: CancelCause,
        /// Whether the escalation begins with INT.
        interrupt: Interrupt,
    },
    /// Runner to proxy: the tool runs.
    Started {
        /// Its process id as the runner sees it.
        pid: u32,
    },
    /// Runner to proxy: output, at most [`MAX_PAYLOAD`] bytes. Encoding more makes several frames.
    Stdout(&'a [u8]),
    /// Runner to proxy, last: the tool ended.
    Exit(Exit),
    /// Runner to proxy, last: the tool could not be started.
    StartError(StartError),
    /// Runner to proxy, first on the control connection: ready.
    Hello {
        /// The version of these frames, see [`FRAMES_VERSION`].
        version: u8,
    },
    /// Proxy to runner, first on the control connection: the session's places.
    Setup(Setup),
    /// Proxy to runner, control: a new exec channel, whose descriptor comes with this frame. A
    /// second descriptor is what the tool gets as stdout and stderr; without one its output comes
    /// as [`Frame::Stdout`].
    Open,
    /// Proxy to runner, control: deliver a signal.
    Kill {
        /// Matches the answer to the question.
        serial: u32,
        /// What to deliver to the exec's process group.
        signal: Signal,
        /// Which exec.
        id: ExecId,
    },
    /// Runner to proxy, control: the answer to [`Frame::Kill`].
    Killed {
        /// The question's.
        serial: u32,
        /// What came of it.
        found: Delivery,
    },
}

/// The version of the frames described here.
pub const FRAMES_VERSION: u8 = 1;

/// What a runner is and where the session's places are, as absolute paths in its own view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The workspace root.
    pub workspace: Vec<u8>,
    /// The session's shared temporary directory.
    pub tmp: Vec<u8>,
    /// The kind of the sidecar.
    pub kind: String,
}

code_table! {
    /// What a frame is; its first byte.
    pub enum FrameKind {
        /// [`Frame::Start`]
        Start = 0x01,
        /// [`Frame::Cancel`]
        Cancel = 0x05,
        /// [`Frame::Started`]
        Started = 0x10,
        /// [`Frame::Stdout`]
        Stdout = 0x11,
        /// [`Frame::Exit`]
        Exit = 0x13,
        /// [`Frame::StartError`]
        StartError = 0x14,
        /// [`Frame::Hello`]
        Hello = 0x20,
        /// [`Frame::Setup`]
        Setup = 0x21,
        /// [`Frame::Open`]
        Open = 0x22,
        /// [`Frame::Kill`]
        Kill = 0x23,
        /// [`Frame::Killed`]
        Killed = 0x24,
    }
}

code_table! {
    /// Why an exec is ended from outside.
    pub enum CancelCause {
        /// It ran longer than the session allows.
        Timeout = 1,
        /// Its client went away.
        Disconnect = 2,
        /// The session ends.
        Shutdown = 3,
    }
}

code_table! {
    /// Whether an escalation begins with INT.
    pub enum Interrupt {
        /// INT, then TERM, then KILL.
        Send = 0,
        /// A signal was sent just now by the client's wish: TERM, then KILL.
        Skip = 1,
    }
}

code_table! {
    /// What came of a signal.
    pub enum Delivery {
        /// The process group got it.
        Delivered = 0,
        /// No such exec runs.
        NoSuchExec = 1,
    }
}

impl Frame<'_> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Frame::Stdout(data) = self {
            for data in data.chunks(MAX_PAYLOAD) {
                encode_frame_head(out, FrameKind::Stdout, data.len());
                out.extend_from_slice(data);
            }
            return;
        }
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
            Frame::Cancel { .. } => FrameKind::Cancel,
            Frame::Started { .. } => FrameKind::Started,
            Frame::Stdout(_) => FrameKind::Stdout,
            Frame::Exit(_) => FrameKind::Exit,
            Frame::StartError(_) => FrameKind::StartError,
            Frame::Hello { .. } => FrameKind::Hello,
            Frame::Setup(_) => FrameKind::Setup,
            Frame::Open => FrameKind::Open,
            Frame::Kill { .. } => FrameKind::Kill,
            Frame::Killed { .. } => FrameKind::Killed,
        }
    }

    fn encode_payload(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Start(start) => start.encode(out),
            Frame::Cancel { cause, interrupt } => out.extend([cause.code(), interrupt.code()]),
            Frame::Started { pid } => out.extend(pid.to_be_bytes()),
            Frame::Stdout(data) => out.extend_from_slice(data),
            Frame::Exit(exit) => exit.encode(out),
            Frame::StartError(error) => error.encode(out),
            Frame::Hello { version } => out.push(*version),
            Frame::Setup(setup) => {
                push_bytes(out, &setup.workspace);
                push_bytes(out, &setup.tmp);
                push_bytes(out, setup.kind.as_bytes());
            }
            Frame::Open => {}
            Frame::Kill { serial, signal, id } => {
                out.extend(serial.to_be_bytes());
                out.push(signal.number());
                out.extend_from_slice(id.as_str().as_bytes());
            }
            Frame::Killed { serial, found } => {
                out.extend(serial.to_be_bytes());
                out.push(found.code());
            }
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
            FrameKind::Start => Frame::Start(Start::decode(fields)?),
            FrameKind::Cancel => Frame::Cancel {
                cause: CancelCause::from_code(fields.u8()?)?,
                interrupt: Interrupt::from_code(fields.u8()?)?,
            },
            FrameKind::Started => Frame::Started { pid: fields.u32()? },
            FrameKind::Stdout => Frame::Stdout(fields.rest()),
            FrameKind::Exit => Frame::Exit(Exit::decode(fields)?),
            FrameKind::StartError => Frame::StartError(StartError::decode(fields)?),
            FrameKind::Hello => Frame::Hello { version: fields.u8()? },
            FrameKind::Setup => Frame::Setup(Setup {
                workspace: fields.absolute()?,
                tmp: fields.absolute()?,
                kind: String::from_utf8(fields.bytes()?.to_vec()).ok()?,
            }),
            FrameKind::Open => Frame::Open,
            FrameKind::Kill => Frame::Kill {
                serial: fields.u32()?,
                signal: Signal::from_number(fields.u8()?)?,
                id: ExecId::parse(fields.rest()).ok()?,
            },
            FrameKind::Killed => {
                Frame::Killed { serial: fields.u32()?, found: Delivery::from_code(fields.u8()?)? }
            }
        })
    }
}

/// Appends the head of a frame whose payload, of `len` bytes, goes out separately.
pub fn encode_frame_head(out: &mut Vec<u8>, kind: FrameKind, len: usize) {
    out.push(kind.code());
    out.extend(wire_length(len));
}

/// The head of a [`Frame::Stdout`] of `len` bytes, for a `writev` with the data: `len` must be at
/// most [`MAX_PAYLOAD`], or the peer refuses the frame.
pub fn stdout_head(len: usize) -> [u8; 5] {
    let [a, b, c, d] = wire_length(len);
    [FrameKind::Stdout.code(), a, b, c, d]
}

fn wire_length(len: usize) -> [u8; 4] {
    // Beyond u32 is beyond every limit, too; the peer refuses both.
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}
