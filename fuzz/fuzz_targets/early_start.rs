//! Input of the shim before the C library starts: its initial stack, and the answer to a call.

#![no_main]

use aifo_process::parse_stack;
use aifo_types::Ending;
use aifo_wire::{
    Frame, FrameReader, Limits, ResponseEvent, ResponseReader, ShortAnswer, parse_short_answer,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    check_answer(data);
    let (words, _) = data.as_chunks();
    check_stack(&words.iter().map(|word| usize::from_le_bytes(*word)).collect::<Vec<_>>());
    // Small numbers reach the parts behind the first.
    check_stack(&data.iter().map(|byte| usize::from(*byte)).collect::<Vec<_>>());
});

fn check_answer(data: &[u8]) {
    let whole = parse_short_answer(data);
    let mut before = ShortAnswer::Incomplete { started: None };
    for cut in 0..data.len().min(512) {
        let part = parse_short_answer(&data[..cut]);
        match before {
            ShortAnswer::Incomplete { started: None } => {}
            ShortAnswer::Incomplete { started } => {
                let is_stopped =
                    matches!(part, ShortAnswer::Incomplete { started: now } if now != started);
                assert!(!is_stopped, "a tool starts once");
            }
            ended => assert_eq!(part, ended, "an end is final"),
        }
        before = part;
    }
    if let ShortAnswer::Exited(code) = whole {
        assert_eq!(exit_code(data), Some(code), "the readers of long calls find the same");
    }
}

/// Returns the exit code that a long call would find.
fn exit_code(data: &[u8]) -> Option<u8> {
    let mut head = ResponseReader::new(Limits::default());
    head.receive(data);
    let Ok(ResponseEvent::Head(found)) = head.next_event() else { return None };
    assert_eq!(found.status, 101);
    let mut frames = FrameReader::for_client();
    frames.receive(&head.take_rest());
    let Ok(Some(Frame::Started { .. })) = frames.next_frame() else { return None };
    match frames.next_frame() {
        Ok(Some(Frame::Exit { exit, .. })) => match exit.ending {
            Ending::Exited(code) if exit.note.is_none() && exit.cancelled.is_none() => Some(code),
            _ => None,
        },
        _ => None,
    }
}

fn check_stack(words: &[usize]) {
    const MAX_STRINGS: usize = 64;
    let mut last = 0;
    let word = |index: usize| {
        assert!(index >= last, "words are read in order");
        last = index;
        words.get(index).copied()
    };
    let Some(layout) = parse_stack(word, MAX_STRINGS) else { return };
    let strings = layout.argument_count + layout.variable_count;
    assert!(layout.argument_count > 0 && strings <= MAX_STRINGS);
    assert_eq!(layout.environment, layout.argument_count + 2);
    let variables = &words[layout.environment..][..=layout.variable_count];
    assert_eq!(variables.iter().position(|word| *word == 0), Some(layout.variable_count));
    assert_eq!(words[last], layout.executed_path, "nothing is read after the path");
}
