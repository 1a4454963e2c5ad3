//! The head of a push, in any pieces.

#![no_main]

use aifo_forge::{Push, PushError, PushReader};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let whole = input.check_splits(|pieces| read(pieces));
    let Ok(Some((push, _))) = whole else { return };
    // The forge gets the judged updates.
    let head = push.head();
    let again = read(&mut std::iter::once(&head[..])).expect("valid").expect("whole");
    assert_eq!(again, (push.clone(), Vec::new()));
    let answer = push.rejection("no", "no");
    assert!(answer.ends_with(b"0000"));
});

/// The push, and all bytes behind its head.
fn read<'a>(
    pieces: &mut dyn Iterator<Item = &'a [u8]>,
) -> Result<Option<(Push, Vec<u8>)>, PushError> {
    let mut reader = PushReader::default();
    while let Some(piece) = pieces.next() {
        if let Some((push, mut pack)) = reader.read(piece)? {
            for piece in pieces {
                pack.extend_from_slice(piece);
            }
            return Ok(Some((push, pack)));
        }
    }
    Ok(None)
}
