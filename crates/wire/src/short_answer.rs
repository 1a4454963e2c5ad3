//! The answer to a version 3 call of a moment: `101`, `Started`, `Exit`.

use aifo_types::{Ending, Stdio};

use crate::frame::Frame;
use crate::frame_reader::FrameReader;
use crate::response::{UpgradeHead, match_upgrade_head};

/// An answer, as far as a client can act on it without relaying streams or printing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortAnswer {
    /// More bytes are needed.
    Incomplete {
        /// The tool descriptors, if it has started.
        started: Option<[Stdio; 3]>,
    },
    /// The tool has exited with this code, and nothing else needs to be reported.
    Exited(u8),
    /// Anything else, which needs a [`ResponseReader`](crate::ResponseReader) and a
    /// [`FrameReader`].
    Other,
}

/// Parses all bytes that a connection has received.
///
/// `Other` and `Exited` do not depend on the bytes that follow. A relayed stream or a terminal is
/// `Other`.
pub fn parse_short_answer(bytes: &[u8]) -> ShortAnswer {
    let frames = match match_upgrade_head(bytes) {
        UpgradeHead::Complete(length) => bytes.get(length..).unwrap_or_default(),
        UpgradeHead::Incomplete => return ShortAnswer::Incomplete { started: None },
        UpgradeHead::Other => return ShortAnswer::Other,
    };
    let mut reader = FrameReader::for_client();
    reader.receive(frames);
    let mut started = None;
    loop {
        match reader.next_frame() {
            Ok(None) => return ShortAnswer::Incomplete { started },
            Ok(Some(Frame::Started { stdio, .. })) if started.is_none() && is_direct(stdio) => {
                started = Some(stdio);
            }
            Ok(Some(Frame::Exit { exit, .. })) if started.is_some() => {
                return match exit.ending {
                    Ending::Exited(code) if exit.cancelled.is_none() && exit.note.is_none() => {
                        ShortAnswer::Exited(code)
                    }
                    _ => ShortAnswer::Other,
                };
            }
            Ok(Some(_)) | Err(_) => return ShortAnswer::Other,
        }
    }
}

fn is_direct(stdio: [Stdio; 3]) -> bool {
    stdio.iter().all(|kind| !matches!(kind, Stdio::Relayed | Stdio::Terminal))
}

#[cfg(test)]
mod tests {
    use aifo_types::ExecId;

    use super::*;
    use crate::{
        CallNote, CancelCause, Exit, Limits, ResourceUsage, ResponseEvent, ResponseReader,
        encode_progress, encode_upgrade_head,
    };

    const PASSED: [Stdio; 3] = [Stdio::Null, Stdio::Passed, Stdio::Same];

    fn exit(ending: Ending) -> Exit {
        Exit { ending, cancelled: None, note: None, taken: 0, usage: ResourceUsage::default() }
    }

    fn answer(id: Option<&ExecId>, stdio: [Stdio; 3], exit: Exit) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_upgrade_head(&mut bytes, id);
        Frame::Started { serial: 1, pid: 2, stdio }.encode(&mut bytes);
        Frame::Exit { serial: 1, exit }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_short_call_is_understood_at_every_length() {
        let id = ExecId::parse(&[b'x'; 64]).unwrap();
        for id in [None, Some(&id)] {
            let bytes = answer(id, PASSED, exit(Ending::Exited(7)));
            assert_eq!(parse_short_answer(&bytes), ShortAnswer::Exited(7));
            let mut was_started = false;
            for cut in 0..bytes.len() {
                let ShortAnswer::Incomplete { started } = parse_short_answer(&bytes[..cut]) else {
                    panic!("{cut}");
                };
                assert!(
                    started.is_none_or(|stdio| stdio == PASSED)
                        && (started.is_some() || !was_started)
                );
                was_started = started.is_some();
            }
            assert!(was_started);
            // The general reader finds the same head.
            let mut reader = ResponseReader::new(Limits::default());
            reader.receive(&bytes);
            let Ok(ResponseEvent::Head(head)) = reader.next_event() else { panic!("no head") };
            assert_eq!(head.status, 101);
            let UpgradeHead::Complete(length) = match_upgrade_head(&bytes) else {
                panic!("no head")
            };
            assert_eq!(reader.take_rest(), &bytes[length..]);
        }
    }

    #[test]
    fn everything_else_is_other() {
        let ended = exit(Ending::Exited(0));
        let mut progress = Vec::new();
        encode_progress(&mut progress, "starting the rust sidecar");
        let mut without_start = Vec::new();
        encode_upgrade_head(&mut without_start, None);
        Frame::Exit { serial: 1, exit: ended }.encode(&mut without_start);
        let mut twice = Vec::new();
        encode_upgrade_head(&mut twice, None);
        for _ in 0..2 {
            Frame::Started { serial: 1, pid: 2, stdio: PASSED }.encode(&mut twice);
        }
        let rows = [
            answer(None, [Stdio::Relayed, Stdio::Null, Stdio::Null], ended),
            answer(None, [Stdio::Null, Stdio::Terminal, Stdio::Null], ended),
            answer(None, PASSED, exit(Ending::Signaled(9))),
            answer(None, PASSED, Exit { cancelled: Some(CancelCause::Timeout), ..ended }),
            answer(None, PASSED, Exit { note: Some(CallNote::GitConfig), ..ended }),
            progress,
            without_start,
            twice,
            b"HTTP/1.1 401 Unauthorized\r\n\r\n".to_vec(),
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n".to_vec(),
            b"\r\n".to_vec(),
        ];
        for bytes in rows {
            assert_eq!(parse_short_answer(&bytes), ShortAnswer::Other, "{}", bytes.escape_ascii());
        }
    }
}
