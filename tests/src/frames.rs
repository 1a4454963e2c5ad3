//! Frame encoding and decoding (`spec/exec3.md#frames`).

/// Kinds of frames, by their first byte.
pub mod kind {
    #![allow(missing_docs, reason = "their names are the specification's")]
    pub const START: u8 = 0x01;
    pub const DATA: u8 = 0x02;
    pub const CLOSED: u8 = 0x03;
    pub const CREDIT: u8 = 0x04;
    pub const CANCEL: u8 = 0x05;
    pub const SIGNAL: u8 = 0x06;
    pub const RESIZE: u8 = 0x07;
    pub const STARTED: u8 = 0x10;
    pub const EXIT: u8 = 0x13;
    pub const START_ERROR: u8 = 0x14;
    pub const STOPPED: u8 = 0x15;
    pub const LEFT: u8 = 0x16;
    pub const HELLO: u8 = 0x20;
    pub const SETUP: u8 = 0x21;
    pub const KILL: u8 = 0x23;
    pub const KILLED: u8 = 0x24;
}

/// Streams of a client connection, by their number.
pub mod stream {
    #![allow(missing_docs, reason = "their names are the specification's")]
    pub const STDIN: u8 = 0;
    pub const STDOUT: u8 = 1;
    pub const STDERR: u8 = 2;
    pub const TERMINAL: u8 = 3;
}

/// The largest number of unacknowledged bytes on a stream.
pub const WINDOW: usize = 256 * 1024;
/// The largest payload of a frame, in bytes.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// A frame that a client receives after `Started`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes of a stream.
    Data(u8, Vec<u8>),
    /// The stream's reader has closed it.
    Closed(u8),
    /// This many more bytes may be sent on a stream.
    Credit(u8, usize),
    /// The tool was stopped by this signal, after this many CONT.
    Stopped(u8, u32),
    /// The tool has ended.
    Exit(Exit),
}

/// How a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, or the signal that ended it.
    pub ending: Result<u8, u8>,
    /// Why it was cancelled; 0 if it was not.
    pub cancelled: u8,
    /// The call note; 0 for none.
    pub note: u8,
    /// The bytes of its relayed stdin that were not read.
    pub taken: u64,
}

impl Frame {
    /// Decodes a frame that a client may receive. Panics on others.
    #[track_caller]
    pub(crate) fn read(kind: u8, payload: &[u8]) -> Self {
        let frame = match (kind, payload) {
            (kind::DATA, [stream, data @ ..]) => Some(Frame::Data(*stream, data.to_vec())),
            (kind::CLOSED, [stream]) => Some(Frame::Closed(*stream)),
            (kind::CREDIT, [stream, rest @ ..]) => {
                rest.try_into().ok().map(|bytes| Frame::Credit(*stream, number(bytes) as usize))
            }
            (kind::STOPPED, [signal, rest @ ..]) => {
                rest.try_into().ok().map(|resumed| Frame::Stopped(*signal, number(resumed)))
            }
            (kind::EXIT, payload) => Exit::read(payload).map(Frame::Exit),
            _ => None,
        };
        frame.unwrap_or_else(|| {
            panic!("a client receives no frame {kind:#04x} {}", payload.escape_ascii())
        })
    }
}

impl Exit {
    /// `serial u32, how u8, status u8, cancelled u8, note u8, taken u64`, and 32 bytes of resource
    /// usage.
    fn read(payload: &[u8]) -> Option<Self> {
        let (fields, _used) = payload.split_at_checked(16).filter(|(_, used)| used.len() == 32)?;
        let ending = match fields[4] {
            0 => Ok(fields[5]),
            1 => Err(fields[5]),
            _ => return None,
        };
        let taken = u64::from_be_bytes(fields[8..].try_into().ok()?);
        Some(Exit { ending, cancelled: fields[6], note: fields[7], taken })
    }
}

/// Encodes a frame of any kind and payload.
pub fn frame(kind: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    [&[kind][..], &string(payload)].concat()
}

/// Encodes `Data` in as many frames as necessary.
pub fn data(stream: u8, bytes: &[u8]) -> Vec<u8> {
    let frames = bytes.chunks(MAX_PAYLOAD - 1);
    frames.flat_map(|bytes| frame(kind::DATA, [&[stream][..], bytes].concat())).collect()
}

/// Encodes `Credit`.
pub fn credit(stream: u8, bytes: usize) -> Vec<u8> {
    let bytes = u32::try_from(bytes).expect("credit is a small number").to_be_bytes();
    frame(kind::CREDIT, [&[stream][..], &bytes].concat())
}

/// Encodes a string with its length.
pub fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let length = u32::try_from(bytes.len()).expect("what a test sends is short");
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Encodes strings with their number.
pub(crate) fn strings<T: AsRef<[u8]>>(strings: &[T]) -> Vec<u8> {
    let count = u32::try_from(strings.len()).expect("what a test sends is short");
    let strings = strings.iter().flat_map(string);
    count.to_be_bytes().into_iter().chain(strings).collect()
}

pub(crate) fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip() {
        let wire = data(stream::STDOUT, &[b'x'; MAX_PAYLOAD]);
        assert_eq!(wire.len(), MAX_PAYLOAD + 2 * 6, "two frames, each with its head");
        assert_eq!(&wire[..6], b"\x02\0\x01\0\0\x01");
        assert_eq!(credit(stream::STDIN, 258), b"\x04\0\0\0\x05\0\0\0\x01\x02");
        assert_eq!(Frame::read(kind::CREDIT, b"\0\0\0\x01\x02"), Frame::Credit(0, 258));
        assert_eq!(strings(&["ab", ""]), b"\0\0\0\x02\0\0\0\x02ab\0\0\0\0");
        let mut exit = vec![0; 48];
        exit[4..8].copy_from_slice(&[1, 9, 2, 1]);
        exit[15] = 7;
        let read = Exit { ending: Err(9), cancelled: 2, note: 1, taken: 7 };
        assert_eq!(Frame::read(kind::EXIT, &exit), Frame::Exit(read));
        assert_eq!(Exit::read(&exit[1..]), None);
    }
}
