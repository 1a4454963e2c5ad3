//! First bytes of a TLS client.

#![no_main]

use aifo_egress::hello::{Hello, MAX_HELLO, parse_hello};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let whole = input.check_splits(|pieces| parse(pieces));
    if let Hello::Sni(name) = &whole {
        // The name stands in the bytes; only its records may split it.
        let has = |byte: u8| input.wire.iter().any(|other| other.eq_ignore_ascii_case(&byte));
        assert!(name.as_str().bytes().all(has), "{name}");
    }
    // Bytes after the ClientHello, such as early data, make no difference.
    let more = [input.wire, &[23, 3, 3, 0, 1, 0]].concat();
    if whole != Hello::NeedMore && more.len() <= MAX_HELLO {
        assert_eq!(parse_hello(&more), whole);
    }
});

/// Parses after each piece, up to a result.
fn parse(pieces: &mut dyn Iterator<Item = &[u8]>) -> Hello {
    let mut received = Vec::new();
    for piece in pieces {
        received.extend(piece);
        let hello = parse_hello(&received);
        if hello != Hello::NeedMore {
            return hello;
        }
        assert!(received.len() < MAX_HELLO);
    }
    Hello::NeedMore
}
