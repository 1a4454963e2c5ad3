//! Lines of an agent.

#![no_main]

use aifo_acp::{Frame, FrameReader};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let frames = input.check_splits(|pieces| read(pieces));
    let ends = input.wire.iter().filter(|byte| **byte == b'\n').count();
    assert!(frames.len() <= ends + 1, "no more lines than there are");
});

fn read(pieces: &mut dyn Iterator<Item = &[u8]>) -> Vec<String> {
    let mut reader = FrameReader::new(LIMIT, HEAD);
    let mut frames = Vec::new();
    for piece in pieces {
        reader.receive(piece);
        while let Some(frame) = reader.next_frame() {
            frames.push(describe(frame));
        }
        assert!(reader.held() <= LIMIT + HEAD, "less than a line is held");
    }
    reader.receive_eof();
    while let Some(frame) = reader.next_frame().filter(|frame| *frame != Frame::Eof) {
        frames.push(describe(frame));
    }
    assert_eq!(reader.next_frame(), Some(Frame::Eof), "the end stays");
    frames
}

fn describe(frame: Frame<'_>) -> String {
    match frame {
        Frame::Line(line) => {
            assert!(!line.is_empty() && line.len() <= LIMIT && !line.contains('\n'));
            assert!(!line.starts_with(' ') && !line.ends_with('\r'));
        }
        Frame::Oversize { len, head } => {
            assert!(len > LIMIT as u64 && head.len() == HEAD);
        }
        Frame::NotUtf8 { line } => assert!((1..=LIMIT).contains(&line.len())),
        Frame::Eof => panic!("the end comes last"),
    }
    format!("{frame:?}")
}

const LIMIT: usize = 64;
const HEAD: usize = 16;
