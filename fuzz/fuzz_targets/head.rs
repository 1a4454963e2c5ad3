//! Requests and responses.

#![no_main]

use aifo_types::ExecId;
use aifo_wire::{
    BodyKind, Limits, MessageError, RequestEvent, RequestHead, RequestReader, ResponseEvent,
    ResponseHead, ResponseReader, ToolEnd, Version, encode_response_head,
};
use aifo_wire_fuzz::{Input, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let input = Input::parse(data);
    let request = input.check_splits(|pieces| read_request(pieces, Body::Wanted));
    if let Some(Ok(RequestEvent::Head(head))) = request.first() {
        check_request_head(head);
    }
    let discarded = input.check_splits(|pieces| read_request(pieces, Body::Discarded));
    check_discarded(&request, &discarded);
    let answer = input.check_splits(read_answer);
    if let Some(head) = &answer.head {
        check_answer_head(head);
    }
});

/// The treatment of a body by the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Wanted,
    Discarded,
}

/// Returns all events up to the body or the error.
fn read_request(
    pieces: &mut dyn Iterator<Item = &[u8]>,
    body: Body,
) -> Vec<Result<RequestEvent, MessageError>> {
    let mut reader = RequestReader::new(limits());
    let mut events = Vec::new();
    let mut ended = false;
    loop {
        let event = reader.next_event();
        match &event {
            Ok(RequestEvent::NeedData) => {
                assert!(!ended, "an event after the end of the input");
                let bound = limits().max_head.max(limits().max_body);
                assert!(reader.buffer().len() <= bound, "at most a head or a body is buffered");
                match pieces.next() {
                    Some(piece) => reader.receive(piece),
                    None => {
                        reader.receive_eof();
                        ended = true;
                    }
                }
                continue;
            }
            Ok(RequestEvent::Head(_)) if body == Body::Discarded => reader.discard_body(),
            Ok(RequestEvent::Head(_)) => {}
            Ok(RequestEvent::Body(body)) => assert!(body.len() <= limits().max_body),
            Err(error) => assert_eq!(reader.next_event(), Err(error.clone()), "errors stay"),
        }
        let last = !matches!(event, Ok(RequestEvent::Head(_)));
        events.push(event);
        if last {
            return events;
        }
    }
}

/// Checks that a re-encoded head is decoded as the same head.
fn check_request_head(head: &RequestHead) {
    let version = if head.version == Version::Http10 { "1.0" } else { "1.1" };
    let mut wire = format!("{} {} HTTP/{version}\r\n", head.method, head.target).into_bytes();
    for (name, value) in &head.headers {
        wire.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    wire.extend_from_slice(b"\r\n");
    let mut reader = RequestReader::new(Limits::default());
    reader.receive(&wire);
    assert_eq!(reader.next_event(), Ok(RequestEvent::Head(head.clone())));
}

/// Checks that a discarded request with a valid head always ends with an empty body.
fn check_discarded(
    wanted: &[Result<RequestEvent, MessageError>],
    discarded: &[Result<RequestEvent, MessageError>],
) {
    match wanted.first() {
        Some(Ok(head)) => {
            assert_eq!(discarded, [Ok(head.clone()), Ok(RequestEvent::Body(Vec::new()))])
        }
        _ => assert_eq!(wanted, discarded),
    }
}

/// The client's result.
#[derive(Debug, PartialEq)]
struct Answer {
    head: Option<ResponseHead>,
    body: Vec<u8>,
    end: Result<(Option<u8>, ToolEnd), MessageError>,
}

fn read_answer(pieces: &mut dyn Iterator<Item = &[u8]>) -> Answer {
    let mut reader = ResponseReader::new(limits());
    let (mut head, mut body) = (None, Vec::new());
    let end = loop {
        match reader.next_event() {
            Ok(ResponseEvent::NeedData) => {
                assert!(reader.buffer().len() <= limits().max_head, "at most a head is buffered");
                match pieces.next() {
                    Some(piece) => reader.receive(piece),
                    None => reader.receive_eof(),
                }
            }
            Ok(ResponseEvent::Progress(_) | ResponseEvent::Approval(_)) => {
                assert!(head.is_none(), "interim");
            }
            Ok(ResponseEvent::Head(read)) => head = Some(read),
            Ok(ResponseEvent::Data(data)) => {
                assert!(!data.is_empty());
                body.extend_from_slice(data);
            }
            Ok(ResponseEvent::End { exit_code, tool_end }) => break Ok((exit_code, tool_end)),
            Err(error) => break Err(error),
        }
    };
    Answer { head, body, end }
}

/// Checks that the encoded form of this head is decoded as the same head.
fn check_answer_head(head: &ResponseHead) {
    let BodyKind::Length(length) = head.body else { return };
    // Below 200 are interim responses and other protocols.
    if head.status < 200 {
        return;
    }
    let exec_id = head.exec_id.as_ref().and_then(|id| ExecId::parse(id.as_bytes()).ok());
    let mut wire = Vec::new();
    let status = (head.status, "Said Before");
    encode_response_head(&mut wire, status, head.exit_code, None, exec_id.as_ref(), length);
    let mut reader = ResponseReader::new(Limits::default());
    reader.receive(&wire);
    let exec_id = exec_id.map(|id| id.to_string());
    let again = ResponseHead { exec_id, ..head.clone() };
    assert_eq!(reader.next_event(), Ok(ResponseEvent::Head(again)));
}
