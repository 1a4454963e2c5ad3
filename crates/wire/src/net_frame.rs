//! Frames of the connections that a runner accepts in its network stack, where no descriptors pass
//! (`spec/runner.md#connections-of-a-stack`).

use core::net::{Ipv4Addr, SocketAddrV4};

use crate::frame_codes::FrameKind;
use crate::frame_limits::MAX_NET_DATA;
use crate::payload::Payload;

/// A frame of a network stack; data is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetFrame<'a> {
    /// Runner to proxy: a client has connected.
    Open {
        /// The connection: a number that this runner has not used before, larger than all before.
        connection: u32,
        /// The address that the client dialled.
        dialled: SocketAddrV4,
        /// The client's own address.
        peer: SocketAddrV4,
    },
    /// 1 to [`MAX_NET_DATA`] bytes of a connection. Longer data is encoded as several frames.
    Data {
        /// The connection.
        connection: u32,
        /// The bytes, split anywhere.
        data: &'a [u8],
    },
    /// The sender has no more bytes for this connection.
    End {
        /// The connection.
        connection: u32,
    },
    /// The sender's side has failed, or was reset; it discards what it receives.
    Reset {
        /// The connection.
        connection: u32,
    },
    /// Grants credit on a connection.
    Credit {
        /// The connection.
        connection: u32,
        /// The credit in bytes.
        bytes: u32,
    },
    /// Runner to proxy: a datagram for DNS.
    Query {
        /// Its sender.
        peer: SocketAddrV4,
        /// The datagram, at most [`MAX_DATAGRAM`](crate::MAX_DATAGRAM) bytes.
        data: &'a [u8],
    },
    /// Proxy to runner: a response to a datagram.
    Answer {
        /// Its receiver.
        peer: SocketAddrV4,
        /// The datagram.
        data: &'a [u8],
    },
}

impl<'a> NetFrame<'a> {
    /// Returns the frame without its data, and a copy of that.
    pub fn detach(self) -> (NetFrame<'static>, Vec<u8>) {
        let data = match self {
            NetFrame::Data { data, .. }
            | NetFrame::Query { data, .. }
            | NetFrame::Answer { data, .. } => data.to_vec(),
            _ => Vec::new(),
        };
        (self.with_data(&[]), data)
    }

    /// Returns the frame with other data, if it has any.
    #[must_use]
    pub fn with_data(self, data: &[u8]) -> NetFrame<'_> {
        match self {
            NetFrame::Open { connection, dialled, peer } => {
                NetFrame::Open { connection, dialled, peer }
            }
            NetFrame::Data { connection, .. } => NetFrame::Data { connection, data },
            NetFrame::End { connection } => NetFrame::End { connection },
            NetFrame::Reset { connection } => NetFrame::Reset { connection },
            NetFrame::Credit { connection, bytes } => NetFrame::Credit { connection, bytes },
            NetFrame::Query { peer, .. } => NetFrame::Query { peer, data },
            NetFrame::Answer { peer, .. } => NetFrame::Answer { peer, data },
        }
    }

    pub(crate) fn kind(&self) -> FrameKind {
        match self {
            NetFrame::Open { .. } => FrameKind::NetOpen,
            NetFrame::Data { .. } => FrameKind::NetData,
            NetFrame::End { .. } => FrameKind::NetEnd,
            NetFrame::Reset { .. } => FrameKind::NetReset,
            NetFrame::Credit { .. } => FrameKind::NetCredit,
            NetFrame::Query { .. } => FrameKind::NetQuery,
            NetFrame::Answer { .. } => FrameKind::NetAnswer,
        }
    }

    /// Returns the frames to encode: several for long data.
    pub(crate) fn pieces(self) -> impl Iterator<Item = NetFrame<'a>> {
        let (long, short) = match self {
            NetFrame::Data { connection, data } => {
                let pieces = data.chunks(MAX_NET_DATA);
                (Some(pieces.map(move |data| NetFrame::Data { connection, data })), None)
            }
            frame => (None, Some(frame)),
        };
        long.into_iter().flatten().chain(short)
    }

    pub(crate) fn encode_payload(&self, out: &mut Vec<u8>) {
        match self {
            NetFrame::Open { connection, dialled, peer } => {
                out.extend(connection.to_be_bytes());
                push_address(out, dialled);
                push_address(out, peer);
            }
            NetFrame::Data { connection, data } => {
                out.extend(connection.to_be_bytes());
                out.extend_from_slice(data);
            }
            NetFrame::End { connection } | NetFrame::Reset { connection } => {
                out.extend(connection.to_be_bytes());
            }
            NetFrame::Credit { connection, bytes } => {
                out.extend(connection.to_be_bytes());
                out.extend(bytes.to_be_bytes());
            }
            NetFrame::Query { peer, data } | NetFrame::Answer { peer, data } => {
                push_address(out, peer);
                out.extend_from_slice(data);
            }
        }
    }

    /// Decodes the fields of a kind of this module; `None` for other kinds, too.
    pub(crate) fn decode(kind: FrameKind, fields: &mut Payload<'a>) -> Option<Self> {
        Some(match kind {
            FrameKind::NetOpen => NetFrame::Open {
                connection: fields.u32()?,
                dialled: address(fields)?,
                peer: address(fields)?,
            },
            FrameKind::NetData => NetFrame::Data {
                connection: fields.u32()?,
                data: Some(fields.rest()).filter(|data| !data.is_empty())?,
            },
            FrameKind::NetEnd => NetFrame::End { connection: fields.u32()? },
            FrameKind::NetReset => NetFrame::Reset { connection: fields.u32()? },
            FrameKind::NetCredit => {
                NetFrame::Credit { connection: fields.u32()?, bytes: fields.u32()? }
            }
            FrameKind::NetQuery => {
                NetFrame::Query { peer: address(fields)?, data: datagram(fields)? }
            }
            FrameKind::NetAnswer => {
                NetFrame::Answer { peer: address(fields)?, data: datagram(fields)? }
            }
            _ => return None,
        })
    }
}

fn push_address(out: &mut Vec<u8>, address: &SocketAddrV4) {
    out.extend(address.ip().octets());
    out.extend(address.port().to_be_bytes());
}

fn address(fields: &mut Payload<'_>) -> Option<SocketAddrV4> {
    let ip = Ipv4Addr::from_bits(fields.u32()?);
    Some(SocketAddrV4::new(ip, fields.u16()?))
}

fn datagram<'a>(fields: &mut Payload<'a>) -> Option<&'a [u8]> {
    Some(fields.rest()).filter(|data| data.len() <= crate::MAX_DATAGRAM)
}
