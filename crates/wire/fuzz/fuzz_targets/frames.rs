//! Runner frames.

#![no_main]

use aifo_wire::{Frame, FrameError, FrameReader, MAX_PAYLOAD, MAX_START};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Input::parse(data).story(read);
});

/// All frames, encoded anew, and how the stream ended: within a frame or not, or by an error.
type Frames = (Vec<Vec<u8>>, Result<bool, FrameError>);

fn read(pieces: &mut dyn Iterator<Item = &[u8]>) -> Frames {
    let mut reader = FrameReader::new();
    let mut frames = Vec::new();
    for piece in pieces {
        reader.receive(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(encode_again(&frame)),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next_frame(), Err(error), "errors stay");
                    return (frames, Err(error));
                }
            }
        }
        assert!(reader.buffer().len() < HEAD_LEN + MAX_START, "less than one frame is held");
    }
    (frames, Ok(reader.is_within_frame()))
}

/// A frame that was understood is understood alike when it is written anew.
fn encode_again(frame: &Frame<'_>) -> Vec<u8> {
    let mut wire = Vec::new();
    frame.encode(&mut wire);
    // Output of no bytes is no frame.
    if *frame == Frame::Stdout(b"") {
        return wire;
    }
    assert!(wire.len() <= HEAD_LEN + MAX_START);
    if !matches!(frame, Frame::Start(_)) {
        assert!(wire.len() <= HEAD_LEN + MAX_PAYLOAD);
    }
    let mut reader = FrameReader::new();
    reader.receive(&wire);
    assert_eq!(reader.next_frame(), Ok(Some(frame.clone())));
    assert!(!reader.is_within_frame());
    wire
}

/// Kind and length.
const HEAD_LEN: usize = 5;
