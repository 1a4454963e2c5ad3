//! Frames of control and client connections (`spec/runner.md#frames`).
//!
//! On the wire a frame is `kind u8, length u32, payload`; numbers are big-endian. The two
//! connections carry different kinds.

use aifo_types::{ExecId, Signal, Stdio, WindowSize};

use crate::exit::Exit;
use crate::frame_codes::{
    CancelCause, Delivery, FileAccess, FrameKind, Interrupt, ListenerReport, Loopback, OnlyCall,
    SocketResult, SocketType, Stream,
};
use crate::frame_error::FrameError;
use crate::frame_limits::{MAX_DATA, MAX_TUNNEL};
use crate::net_frame::NetFrame;
use crate::payload::Payload;
use crate::start::{Start, StartError};

/// One frame; data is borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Proxy to runner: start a tool. Descriptors come with the first byte: the client connection
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
        /// The tool descriptors 0, 1 and 2.
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
    /// Proxy to runner, first on the control connection: the session directories.
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
        /// The TCP ports besides DNS, at most [`MAX_LISTEN_PORTS`](crate::MAX_LISTEN_PORTS), none of them 0.
        ports: Vec<u16>,
    },
    /// Runner to proxy: the response to [`Frame::Listen`]. If `error` is empty, the descriptors come
    /// with the first byte: DNS over UDP, DNS over TCP, then one for each port.
    Listening {
        /// Why the runner could not bind; empty if it did.
        error: String,
    },
    /// Both: connections of the runner network stack, where no descriptors pass.
    Net(NetFrame<'a>),
    /// Proxy to runner: find the call that a socket of this network stack belongs to, whose connection or
    /// query is refused (`spec/network.md#callers`).
    FindCaller {
        /// Matches [`Frame::Caller`] to this request.
        serial: u32,
        /// The type of the socket.
        socket: SocketType,
        /// The port that it is bound to, not 0.
        port: u16,
        /// The rule for a socket without a visible owner.
        only: OnlyCall,
        /// The refusal, for the client of the call.
        text: String,
    },
    /// Runner to proxy: the response to [`Frame::FindCaller`].
    Caller {
        /// The request's serial.
        serial: u32,
        /// The call; `None` if it is none of this runner's.
        id: Option<ExecId>,
    },
    /// Runner to client, before [`Frame::Exit`] of a tool that failed: a refusal of the network.
    Refused {
        /// A line for the user.
        text: String,
    },
    /// Proxy to runner, before any tool: report the listeners of this network stack
    /// (`spec/network.md#mirrors`). With two zeros: once, now.
    Watch {
        /// The interval while an exec runs, in ms; 0 for never.
        interval: u16,
        /// The interval while only background processes run, in ms; 0 for never.
        background: u16,
    },
    /// Runner to proxy: the listeners at this stack loopback address, after a change.
    Listeners {
        /// The completeness of the list.
        report: ListenerReport,
        /// Each one, at most [`MAX_LISTENERS`](crate::MAX_LISTENERS).
        listeners: Vec<Listener>,
    },
    /// Proxy to runner: bind 127.0.0.1 at this port, and pass the listener. Where no descriptors pass, its
    /// connections are relayed.
    Bind {
        /// Matches [`Frame::Opened`] to this request.
        serial: u32,
        /// The port, not 0.
        port: u16,
    },
    /// Proxy to runner: connect to this port, and pass the connection, which may be in progress. Where no
    /// descriptors pass, it is relayed from its establishment on.
    Connect {
        /// Matches [`Frame::Opened`] to this request.
        serial: u32,
        /// The address.
        address: Loopback,
        /// The port, not 0.
        port: u16,
    },
    /// Runner to proxy: the response to [`Frame::Bind`] or [`Frame::Connect`].
    Opened {
        /// The request's serial.
        serial: u32,
        /// The outcome.
        result: SocketResult,
        /// Where no descriptors pass: the inode of the listener, or the number of the connection, as in
        /// [`NetFrame::Open`]. Otherwise 0.
        id: u32,
    },
    /// To the runner of a container: open a file as a user (`spec/sandbox.md#files`).
    OpenFile {
        /// Matches [`Frame::File`] to this request.
        serial: u32,
        /// The use of the file.
        access: FileAccess,
        /// The user, as in [`Start::user`].
        user: Option<Vec<u8>>,
        /// The path, from the directory of the runner.
        path: Vec<u8>,
    },
    /// The response to [`Frame::OpenFile`].
    File {
        /// The request's serial.
        serial: u32,
        /// The Linux error number; 0 if the descriptor comes with the first byte.
        errno: u32,
    },
    /// Proxy to runner, where no descriptors pass: close the listener of a [`Frame::Bind`].
    Unbind {
        /// The port, not 0.
        port: u16,
    },
}

/// A listening TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// Its port, not 0.
    pub port: u16,
    /// The inode of the socket, which no other open socket has.
    pub inode: u32,
}

/// The version of these frames.
pub const FRAMES_VERSION: u8 = 9;

/// A runner's kind and the session directories, as absolute paths in the runner's view. A
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
            Frame::FindCaller { .. } => FrameKind::FindCaller,
            Frame::Caller { .. } => FrameKind::Caller,
            Frame::Refused { .. } => FrameKind::Refused,
            Frame::Watch { .. } => FrameKind::Watch,
            Frame::Listeners { .. } => FrameKind::Listeners,
            Frame::Bind { .. } => FrameKind::Bind,
            Frame::Connect { .. } => FrameKind::Connect,
            Frame::Opened { .. } => FrameKind::Opened,
            Frame::OpenFile { .. } => FrameKind::OpenFile,
            Frame::File { .. } => FrameKind::File,
            Frame::Unbind { .. } => FrameKind::Unbind,
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
}

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
