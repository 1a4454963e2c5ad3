//! Frames, as a runner's peer and as a client's peer reads them.

#![no_main]

use aifo_wire::{Frame, FrameError, FrameKind, FrameReader, MAX_PAYLOAD, MAX_START};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let control = input.story(|pieces| read(FrameReader::new(), MAX_START, pieces));
    let client = input.story(|pieces| read(FrameReader::for_client(), MAX_PAYLOAD, pieces));
    check_of_client(&control, &client);
});

/// All frames, encoded anew, and how the stream ended: within a frame or not, or by an error.
type Frames = (Vec<Vec<u8>>, Result<bool, FrameError>);

fn read(
    mut reader: FrameReader,
    max_payload: usize,
    pieces: &mut dyn Iterator<Item = &[u8]>,
) -> Frames {
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
        assert!(reader.buffer().len() < HEAD_LEN + max_payload, "less than one frame is held");
    }
    (frames, Ok(reader.is_within_frame()))
}

/// A client's bytes mean the same, up to a `Start` that is longer than it may be there.
fn check_of_client(control: &Frames, client: &Frames) {
    match client.1 {
        Err(FrameError::TooLong { kind: FrameKind::Start, .. }) => {
            assert!(control.0.starts_with(&client.0));
        }
        _ => assert_eq!(control, client),
    }
}

/// A frame that was understood is understood alike when it is written anew.
fn encode_again(frame: &Frame<'_>) -> Vec<u8> {
    let mut wire = Vec::new();
    frame.encode(&mut wire);
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
