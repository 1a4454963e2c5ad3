//! Messages of an agent.

#![no_main]

use aifo_acp::{Inbound, Limits, Message, MessageReader, Traffic, classify};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (story, traffic) = Input::parse(data).check_splits(|pieces| read(pieces));
    let Traffic { requests, notifications, responses, non_json, too_long, .. } = traffic;
    let counted = requests + notifications + responses + non_json + too_long;
    assert_eq!(counted, story.len() as u64, "everything is counted once");
    for inbound in story {
        if let Inbound::Message(message) = inbound {
            assert!(!matches!(message, Message::Invalid(_)));
            assert_eq!(classify(message.to_value()), [message]);
        }
    }
});

fn read(pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<Inbound>, Traffic) {
    let limits =
        Limits { frame: 400, frame_head: 40, values: 40, non_json_tail: 50, ..Limits::default() };
    let mut reader = MessageReader::new(&limits);
    let mut story = Vec::new();
    for piece in pieces {
        reader.receive(piece);
        story.extend(std::iter::from_fn(|| reader.next_message()));
        assert!(reader.held() <= 440 && reader.non_json().len() <= 50);
    }
    reader.receive_eof();
    let is_message = |inbound: &Inbound| *inbound != Inbound::Eof;
    story.extend(std::iter::from_fn(|| reader.next_message().filter(is_message)));
    (story, reader.traffic())
}
