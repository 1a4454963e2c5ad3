//! The chunked coding, alone and as a request body.

#![no_main]

use aifo_wire::{
    ChunkError, ChunkedDecoder, MessageError, RequestEvent, RequestReader, Step, encode_chunk,
};
use aifo_wire_fuzz::{Input, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let decoded = input.check_splits(decode);
    assert!(decoded.data.len() <= input.wire.len(), "no byte is added");
    if let Ok(Some(_)) = decoded.end {
        check_reencoded(&decoded);
    }
    check_request(input.wire, &decoded);
});

/// The decoder's result.
#[derive(Debug, PartialEq)]
struct Decoded {
    data: Vec<u8>,
    trailers: Vec<(String, Vec<u8>)>,
    /// The encoded length of the body; `None` if it does not end.
    end: Result<Option<usize>, ChunkError>,
}

fn decode(pieces: &mut dyn Iterator<Item = &[u8]>) -> Decoded {
    let mut decoder = ChunkedDecoder::new(&limits());
    let (mut data, mut used) = (Vec::new(), 0);
    let end = 'body: {
        for mut piece in pieces {
            let len = piece.len();
            loop {
                match decoder.decode(&mut piece) {
                    Ok(Step::Data(part)) => {
                        assert!(!part.is_empty());
                        data.extend_from_slice(part);
                    }
                    Ok(Step::NeedData) => break,
                    Ok(Step::End) => break 'body Ok(Some(used + len - piece.len())),
                    Err(error) => break 'body Err(error),
                }
            }
            assert!(piece.is_empty(), "all input is consumed");
            used += len;
        }
        Ok(None)
    };
    Decoded { data, trailers: decoder.trailers().to_vec(), end }
}

/// Checks that a re-encoded body is decoded as the same body.
fn check_reencoded(decoded: &Decoded) {
    let mut wire = Vec::new();
    encode_chunk(&mut wire, &decoded.data);
    wire.extend_from_slice(b"0\r\n");
    for (name, value) in &decoded.trailers {
        wire.extend_from_slice(&[name.as_bytes(), b":", value, b"\r\n"].concat());
    }
    wire.extend_from_slice(b"\r\n");
    let again = decode(&mut std::iter::once(&wire[..]));
    assert_eq!((again.data, again.trailers), (decoded.data.clone(), decoded.trailers.clone()));
    assert_eq!(again.end, Ok(Some(wire.len())));
}

/// Checks that a server accepts a body exactly if it is complete and within the limits.
fn check_request(wire: &[u8], decoded: &Decoded) {
    let mut reader = RequestReader::new(limits());
    reader.receive(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert!(matches!(reader.next_event(), Ok(RequestEvent::Head(_))));
    reader.receive(wire);
    reader.receive_eof();
    let outcome = reader.next_event();
    let fits = decoded.data.len() <= limits().max_body;
    match decoded.end {
        Ok(Some(used)) if fits && used <= limits().max_drain => {
            assert_eq!(outcome, Ok(RequestEvent::Body(decoded.data.clone())));
            assert_eq!(reader.rest(), wire.get(used..).unwrap_or_default());
        }
        _ if !fits || wire.len() > limits().max_drain => {
            assert!(outcome.is_err(), "{outcome:?}");
        }
        Ok(_) => assert_eq!(outcome, Err(MessageError::Truncated)),
        Err(error) => assert_eq!(outcome, Err(error.into())),
    }
}
