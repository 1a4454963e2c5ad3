//! Frames of control and client connections.

#![no_main]

use aifo_wire::{Frame, FrameError, FrameKind, FrameReader, MAX_PAYLOAD, MAX_START};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let control = input.check_splits(|pieces| read(FrameReader::new(), MAX_START, pieces));
    let client = input.check_splits(|pieces| read(FrameReader::for_client(), MAX_PAYLOAD, pieces));
    check_of_client(&control, &client);
});

/// All frames, re-encoded, and whether the stream ended within a frame, or the error.
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
                Ok(Some(frame)) => frames.push(reencode(&frame)),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next_frame(), Err(error), "repeated error");
                    return (frames, Err(error));
                }
            }
        }
        assert!(reader.buffer().len() < HEAD_LEN + max_payload, "less than a frame is buffered");
    }
    (frames, Ok(reader.is_within_frame()))
}

/// Both readers return the same, except for a `Start` that is too long for a client connection.
fn check_of_client(control: &Frames, client: &Frames) {
    match client.1 {
        Err(FrameError::TooLong { kind: FrameKind::Start, .. }) => {
            assert!(control.0.starts_with(&client.0));
        }
        _ => assert_eq!(control, client),
    }
}

/// Re-encodes a frame and checks that it is decoded as the same frame.
fn reencode(frame: &Frame<'_>) -> Vec<u8> {
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
