//! The only request of an HTTP client, with its body.

#![no_main]

use aifo_egress::http::{MAX_HEAD, Request, RequestError, parse_request};
use aifo_egress::{BodyError, Name};
use aifo_wire_fuzz::Input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let whole = input.check_splits(|pieces| relay(pieces));
    let Ok(Some((head, body))) = whole else { return };
    // The server reads the same request: one host, and nothing after the body.
    let sent = [&head[..], &body].concat();
    let again = relay(&mut std::iter::once(&sent[..])).expect("valid").expect("whole");
    assert_eq!(again, (head.clone(), body));
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let count = |name: &str| text.matches(&format!("\r\n{name}:")).count();
    assert_eq!((count("host"), count("connection"), count("upgrade")), (1, 1, 0));
    assert!(text.ends_with("\r\nconnection: close\r\n\r\n"));
    assert!(head.len() <= MAX_HEAD + 256);
});

#[derive(Debug, PartialEq)]
enum Error {
    Request(RequestError),
    Body(BodyError),
}

/// Returns head and body as a server receives them; `None` if the head is incomplete.
fn relay(pieces: &mut dyn Iterator<Item = &[u8]>) -> Result<Option<(Vec<u8>, Vec<u8>)>, Error> {
    let name = Name::parse(b"a.example").expect("a name");
    let (mut received, mut sent) = (Vec::new(), Vec::new());
    let mut request: Option<Request> = None;
    for piece in pieces {
        received.extend(piece);
        if request.is_none() {
            request = parse_request(&received, &name, 80).map_err(Error::Request)?;
            assert!(request.is_some() || received.len() < MAX_HEAD);
            if let Some(request) = &request {
                received.drain(..request.received);
            }
        }
        if let Some(Request { body, .. }) = &mut request {
            let taken = body.take(&received).map_err(Error::Body)?;
            assert!(taken == received.len() || body.is_complete());
            sent.extend(&received[..taken]);
            received.clear();
        }
    }
    Ok(request.map(|request| (request.head, sent)))
}
