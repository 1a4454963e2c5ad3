//! Taking runner frames off a stream.

use crate::buffer::Buffer;
use crate::frame::{Frame, FrameKind, MAX_PAYLOAD, MAX_START};

/// Takes frames off a stream of bytes. What it holds is bounded by the largest frame and the
/// reads that go into its buffer.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Buffer,
    /// Bytes at the buffer's front that the last frame borrowed.
    spent: usize,
    failed: Option<FrameError>,
}

/// Why bytes are not frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A kind that this version does not know.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// A payload above [`MAX_PAYLOAD`], or [`MAX_START`] for [`Frame::Start`].
    #[error("{kind:?} frame of {len} bytes is too long")]
    TooLong {
        /// Which frame.
        kind: FrameKind,
        /// Its announced length in bytes.
        len: u32,
    },
    /// A payload that is cut off, goes on behind its end, or holds a value out of range.
    #[error("malformed {0:?} frame")]
    Malformed(FrameKind),
}

impl FrameReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where reads from the stream go.
    pub fn buffer(&mut self) -> &mut Buffer {
        self.buffer.consume(std::mem::take(&mut self.spent));
        &mut self.buffer
    }

    /// Takes a copy of bytes that were read elsewhere.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer().extend(bytes);
    }

    /// Whether the bytes so far end within a frame: then the end of the stream cuts one off.
    pub fn is_within_frame(&self) -> bool {
        self.buffer.len() > self.spent
    }

    /// The next frame, or `None` until more bytes have come. After an error, that error.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        self.buffer();
        if let Some(error) = self.failed {
            return Err(error);
        }
        let next = match split_frame(self.buffer.as_slice()) {
            Ok(Some((kind, payload))) => {
                self.spent = HEAD_LEN + payload.len();
                Frame::decode(kind, payload).map(Some)
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        next.inspect_err(|error| self.failed = Some(*error))
    }
}

/// Cuts the first frame off; its length is judged before its payload is there.
fn split_frame(bytes: &[u8]) -> Result<Option<(FrameKind, &[u8])>, FrameError> {
    let Some((&[kind, ref length @ ..], rest)) = bytes.split_first_chunk::<HEAD_LEN>() else {
        return Ok(None);
    };
    let kind = FrameKind::from_code(kind).ok_or(FrameError::UnknownKind(kind))?;
    let len = u32::from_be_bytes(*length);
    let max = if kind == FrameKind::Start { MAX_START } else { MAX_PAYLOAD };
    match usize::try_from(len) {
        Ok(size) if size <= max => Ok(rest.get(..size).map(|payload| (kind, payload))),
        _ => Err(FrameError::TooLong { kind, len }),
    }
}

/// Kind and length.
const HEAD_LEN: usize = 5;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aifo_types::{Ending, ExecId, Signal};

    use super::*;
    use crate::frame::{CancelCause, Delivery, Interrupt, Setup};
    use crate::start::Environment;
    use crate::{Elsewhere, Exit, Start, StartError, StartErrorCause, Usage};

    /// Reads `wire` whole, byte by byte, and with the head of another frame behind it.
    #[track_caller]
    fn check(wire: &[u8], expected: Result<Frame<'_>, FrameError>) {
        let mut reader = FrameReader::new();
        reader.receive(wire);
        assert_eq!(reader.next_frame(), expected.clone().map(Some), "whole");
        match expected {
            Ok(_) => assert_eq!(reader.next_frame(), Ok(None), "only one"),
            Err(error) => assert_eq!(reader.next_frame(), Err(error), "errors stay"),
        }

        let mut reader = FrameReader::new();
        for (index, byte) in wire.iter().enumerate() {
            reader.receive(&[*byte]);
            match reader.next_frame() {
                Ok(None) => assert!(reader.is_within_frame()),
                end => {
                    assert_eq!(end, expected.clone().map(Some), "byte by byte");
                    assert!(expected.is_err() || index + 1 == wire.len(), "not before the end");
                }
            }
        }

        let mut reader = FrameReader::new();
        reader.receive(wire);
        reader.receive(&[0x22, 0, 0]);
        assert_eq!(reader.next_frame(), expected.clone().map(Some), "with trailing bytes");
        if expected.is_ok() {
            assert_eq!(reader.next_frame(), Ok(None));
            reader.receive(&[0, 0]);
            assert_eq!(reader.next_frame(), Ok(Some(Frame::Open)), "trailing bytes untouched");
        }
    }

    /// Checks that `frame` encodes to `wire` and back.
    #[track_caller]
    fn check_both_ways(frame: Frame<'_>, wire: &[u8]) {
        let mut encoded = Vec::new();
        frame.encode(&mut encoded);
        assert_eq!(encoded, wire, "{frame:?}");
        check(wire, Ok(frame));
    }

    fn id() -> ExecId {
        ExecId::parse(b"e1").unwrap()
    }

    #[test]
    fn every_frame_byte_for_byte() {
        check_both_ways(
            Frame::Start(Start {
                id: id(),
                argv: vec![b"cc".to_vec(), vec![], b"\xff".to_vec()],
                cwd: Some(b"/w".to_vec()),
                elsewhere: Elsewhere::AtRoot,
                program: Some(b"/usr/bin/make".to_vec()),
                environment: Environment::Only(vec![b"PATH".to_vec(), b"LC_*".to_vec()]),
            }),
            b"\x01\0\0\0\x44\x01\0\0\0\x02e1\x01\0\0\0\x02/w\x01\0\0\0\x0d/usr/bin/make\
              \x01\0\0\0\x02\0\0\0\x04PATH\0\0\0\x04LC_*\0\0\0\x02cc\0\0\0\0\0\0\0\x01\xff",
        );
        check_both_ways(
            Frame::Start(Start {
                id: id(),
                argv: vec![b"cc".to_vec()],
                cwd: None,
                elsewhere: Elsewhere::Refuse,
                program: None,
                environment: Environment::All,
            }),
            b"\x01\0\0\0\x10\0\0\0\0\x02e1\0\0\0\0\0\0\x02cc",
        );
        check_both_ways(
            Frame::Cancel { cause: CancelCause::Disconnect, interrupt: Interrupt::Skip },
            b"\x05\0\0\0\x02\x02\x01",
        );
        check_both_ways(Frame::Started { pid: 258 }, b"\x10\0\0\0\x04\0\0\x01\x02");
        check_both_ways(Frame::Stdout(b"hi"), b"\x11\0\0\0\x02hi");
        check_both_ways(
            Frame::Exit(Exit {
                ending: Ending::Signaled(9),
                usage: Usage {
                    wall: Duration::from_micros(1),
                    user: Duration::from_micros(2),
                    system: Duration::from_micros(3),
                    max_rss_kib: 4,
                },
            }),
            b"\x13\0\0\0\x22\x01\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04",
        );
        check_both_ways(
            Frame::StartError(StartError {
                cause: StartErrorCause::NotFound,
                message: "no '\u{e9}'".to_owned(),
            }),
            b"\x14\0\0\0\x08\x03no '\xc3\xa9'",
        );
        check_both_ways(Frame::Hello { version: 1 }, b"\x20\0\0\0\x01\x01");
        check_both_ways(
            Frame::Setup(Setup {
                workspace: b"/w".to_vec(),
                tmp: b"/t".to_vec(),
                kind: "rust".into(),
            }),
            b"\x21\0\0\0\x14\0\0\0\x02/w\0\0\0\x02/t\0\0\0\x04rust",
        );
        check_both_ways(Frame::Open, b"\x22\0\0\0\0");
        check_both_ways(
            Frame::Kill { serial: 7, signal: Signal::Term, id: id() },
            b"\x23\0\0\0\x07\0\0\0\x07\x0fe1",
        );
        check_both_ways(
            Frame::Killed { serial: 7, found: Delivery::NoSuchExec },
            b"\x24\0\0\0\x05\0\0\0\x07\x01",
        );
    }

    #[test]
    fn bytes_that_are_no_frame() {
        check(b"\0\0\0\0\0", Err(FrameError::UnknownKind(0)));
        check(b"\x12\0\0\0\0", Err(FrameError::UnknownKind(0x12)));
        let too_long = |kind, len| Err(FrameError::TooLong { kind, len });
        check(b"\x11\0\x01\0\x01", too_long(FrameKind::Stdout, 65537));
        check(b"\x01\0\x40\0\x01", too_long(FrameKind::Start, 4 * 1024 * 1024 + 1));
        check(b"\x22\xff\xff\xff\xff", too_long(FrameKind::Open, u32::MAX));
    }

    #[test]
    fn payloads_out_of_range() {
        let rows: [(FrameKind, &[u8]); 22] = [
            (FrameKind::Start, b""),
            (FrameKind::Start, b"\0\0\0\0\x02e1\0"),
            (FrameKind::Start, b"\x02\0\0\0\x02e1\0\0\0\0\x02cc"),
            (FrameKind::Start, b"\0\0\0\0\x02e/\0\0\0\0\x02cc"),
            (FrameKind::Start, b"\0\0\0\0\x02e1\x02\0\0\0\x02cc"),
            (FrameKind::Start, b"\0\0\0\0\x02e1\0\0\0\0\x02c\0"),
            (FrameKind::Start, b"\0\0\0\0\x02e1\x01\0\0\0\x02/\0\0\0\0\x02cc"),
            (FrameKind::Start, b"\0\0\0\0\x02e1\0\0\0\0\x03cc"),
            (FrameKind::Start, b"\0\0\0\0\x02e1\0\0\0\0\x02ccc"),
            (FrameKind::Start, b"\0\xff\xff\xff\xffe1"),
            (FrameKind::Cancel, b"\0\0"),
            (FrameKind::Cancel, b"\x01\x02"),
            (FrameKind::Cancel, b"\x01"),
            (FrameKind::Cancel, b"\x01\0\0"),
            (FrameKind::Started, b"\0\0\0"),
            (FrameKind::Exit, &[2; 34]),
            (FrameKind::StartError, b"\x06"),
            (FrameKind::StartError, b"\x01\xff"),
            (FrameKind::Setup, b"\0\0\0\x01w\0\0\0\x02/t"),
            (FrameKind::Open, b"\0"),
            (FrameKind::Kill, b"\0\0\0\x07\x0be1"),
            (FrameKind::Killed, b"\0\0\0\x07\x02"),
        ];
        for (kind, payload) in rows {
            let mut wire = Vec::new();
            crate::encode_frame_head(&mut wire, kind, payload.len());
            wire.extend_from_slice(payload);
            check(&wire, Err(FrameError::Malformed(kind)));
        }
    }

    #[test]
    fn more_output_than_a_frame_holds_makes_several() {
        let data = vec![7; MAX_PAYLOAD + 1];
        let mut wire = Vec::new();
        Frame::Stdout(&data).encode(&mut wire);
        let mut reader = FrameReader::new();
        reader.receive(&wire);
        assert_eq!(reader.next_frame(), Ok(Some(Frame::Stdout(&data[..MAX_PAYLOAD]))));
        assert_eq!(reader.next_frame(), Ok(Some(Frame::Stdout(&[7]))));
        assert_eq!(reader.next_frame(), Ok(None));
        assert!(!reader.is_within_frame());
        assert_eq!(wire.get(..5), Some(&crate::stdout_head(MAX_PAYLOAD)[..]));
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let message = "\u{e9}".repeat(MAX_PAYLOAD);
        let mut wire = Vec::new();
        Frame::StartError(StartError { cause: StartErrorCause::Failed, message }).encode(&mut wire);
        let mut reader = FrameReader::new();
        reader.receive(&wire);
        let Ok(Some(Frame::StartError(error))) = reader.next_frame() else { panic!("{wire:?}") };
        assert_eq!(error.message.len(), MAX_PAYLOAD - 2);
    }
}
