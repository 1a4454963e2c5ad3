//! The payloads of frames.

use aifo_types::{ExecId, Signal};

use crate::exit::Exit;
use crate::frame::{Frame, Listener, Setup};
use crate::frame_codes::{
    CancelCause, Delivery, FileAccess, FrameKind, Interrupt, ListenerReport, Loopback, OnlyCall,
    SocketResult, SocketType, Stream,
};
use crate::frame_limits::{MAX_LISTEN_PORTS, MAX_LISTENERS};
use crate::invocation::{decode_size, decode_stdio, encode_size, encode_stdio};
use crate::net_frame::NetFrame;
use crate::payload::{Payload, push_bytes, push_strings};
use crate::start::{Start, StartError};

impl Frame<'_> {
    /// Appends the payload.
    pub(crate) fn encode_payload(&self, out: &mut Vec<u8>) {
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
            Frame::FindCaller { serial, socket, port, only, text } => {
                out.extend(serial.to_be_bytes());
                out.push(socket.code());
                out.extend(port.to_be_bytes());
                out.push(only.code());
                out.extend_from_slice(text.as_bytes());
            }
            Frame::Caller { serial, id } => {
                out.extend(serial.to_be_bytes());
                let id = id.as_ref().map(ExecId::as_str).unwrap_or_default();
                out.extend_from_slice(id.as_bytes());
            }
            Frame::Refused { text } => out.extend_from_slice(text.as_bytes()),
            Frame::Watch { interval, background } => {
                out.extend(interval.to_be_bytes());
                out.extend(background.to_be_bytes());
            }
            Frame::Listeners { report, listeners } => {
                out.push(report.code());
                for Listener { port, inode } in listeners {
                    out.extend(port.to_be_bytes());
                    out.extend(inode.to_be_bytes());
                }
            }
            Frame::Bind { serial, port } => {
                out.extend(serial.to_be_bytes());
                out.extend(port.to_be_bytes());
            }
            Frame::Connect { serial, address, port } => {
                out.extend(serial.to_be_bytes());
                out.push(address.code());
                out.extend(port.to_be_bytes());
            }
            Frame::Opened { serial, result, id } => {
                out.extend(serial.to_be_bytes());
                out.push(result.code());
                out.extend(id.to_be_bytes());
            }
            Frame::OpenFile { serial, access, user, path } => {
                out.extend(serial.to_be_bytes());
                out.push(access.code());
                out.push(u8::from(user.is_some()));
                user.iter().for_each(|user| push_bytes(out, user));
                out.extend_from_slice(path);
            }
            Frame::File { serial, errno } => {
                out.extend(serial.to_be_bytes());
                out.extend(errno.to_be_bytes());
            }
            Frame::Unbind { port } => out.extend(port.to_be_bytes()),
        }
    }
}

impl<'a> Frame<'a> {
    /// Decodes the fields of a payload; the caller checks that none is left.
    pub(crate) fn decode_fields(kind: FrameKind, fields: &mut Payload<'a>) -> Option<Self> {
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
            FrameKind::FindCaller => Frame::FindCaller {
                serial: fields.u32()?,
                socket: SocketType::from_code(fields.u8()?)?,
                port: fields.u16().filter(|port| *port != 0)?,
                only: OnlyCall::from_code(fields.u8()?)?,
                text: String::from_utf8(fields.rest().to_vec()).ok()?,
            },
            FrameKind::Caller => Frame::Caller {
                serial: fields.u32()?,
                id: match fields.rest() {
                    [] => None,
                    id => Some(ExecId::parse(id).ok()?),
                },
            },
            FrameKind::Refused => {
                Frame::Refused { text: String::from_utf8(fields.rest().to_vec()).ok()? }
            }
            FrameKind::Watch => Frame::Watch { interval: fields.u16()?, background: fields.u16()? },
            FrameKind::Listeners => Frame::Listeners {
                report: ListenerReport::from_code(fields.u8()?)?,
                listeners: decode_listeners(fields)?,
            },
            FrameKind::Bind => Frame::Bind { serial: fields.u32()?, port: decode_port(fields)? },
            FrameKind::Connect => Frame::Connect {
                serial: fields.u32()?,
                address: Loopback::from_code(fields.u8()?)?,
                port: decode_port(fields)?,
            },
            FrameKind::Opened => Frame::Opened {
                serial: fields.u32()?,
                result: SocketResult::from_code(fields.u8()?)?,
                id: fields.u32()?,
            },
            FrameKind::OpenFile => Frame::OpenFile {
                serial: fields.u32()?,
                access: FileAccess::from_code(fields.u8()?)?,
                user: fields.optional(|fields| fields.bytes().map(<[u8]>::to_vec))?,
                path: fields.rest().to_vec(),
            },
            FrameKind::File => Frame::File { serial: fields.u32()?, errno: fields.u32()? },
            FrameKind::Unbind => Frame::Unbind { port: decode_port(fields)? },
        })
    }
}

/// Reads ports to the end of the payload.
fn decode_ports(fields: &mut Payload<'_>) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    while !fields.is_empty() {
        ports.push(decode_port(fields)?);
    }
    Some(ports).filter(|ports| ports.len() <= MAX_LISTEN_PORTS)
}

fn decode_port(fields: &mut Payload<'_>) -> Option<u16> {
    fields.u16().filter(|port| *port != 0)
}

/// Reads listeners to the end of the payload.
fn decode_listeners(fields: &mut Payload<'_>) -> Option<Vec<Listener>> {
    let mut listeners = Vec::new();
    while !fields.is_empty() {
        listeners.push(Listener { port: decode_port(fields)?, inode: fields.u32()? });
    }
    Some(listeners).filter(|listeners| listeners.len() <= MAX_LISTENERS)
}

/// Linux's `SIGRTMAX`.
const MAX_SIGNAL: u8 = 64;
