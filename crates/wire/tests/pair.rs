//! Client and server in memory, with messages split at every index.

use aifo_types::{ExecId, Refusal, Token};
use aifo_wire::{
    ExecCall, Limits, RequestEvent, RequestReader, ResponseEvent, ResponseReader, decode_form,
    encode_chunk, encode_refusal, encode_response, encode_stream_end, encode_stream_head,
};

/// Delivers `request` in two pieces. Returns the decoded arguments.
fn decode_request(request: &[u8], cut: usize) -> Vec<Vec<u8>> {
    let mut server = RequestReader::new(Limits::default());
    let (first, second) = request.split_at(cut);
    let mut pieces = [first, second].into_iter();
    loop {
        match server.next_event().unwrap() {
            RequestEvent::NeedData => {
                server.receive(pieces.next().expect("a complete request"));
            }
            RequestEvent::Head(head) => {
                assert_eq!(head.header("authorization"), Some(&b"Bearer t"[..]));
            }
            RequestEvent::Body(body) => {
                return decode_form(&body).all("arg").map(<[u8]>::to_vec).collect();
            }
        }
    }
}

/// Delivers `response` in two pieces. Returns status, body and exit code.
fn decode_response(response: &[u8], cut: usize) -> (u16, Vec<u8>, Option<u8>) {
    let mut client = ResponseReader::new(Limits::default());
    let (first, second) = response.split_at(cut);
    let mut pieces = [first, second].into_iter();
    let (mut status, mut body) = (0, Vec::new());
    loop {
        match client.next_event().unwrap() {
            ResponseEvent::NeedData => {
                client.receive(pieces.next().expect("a complete response"));
            }
            ResponseEvent::Progress(_) | ResponseEvent::Approval(_) => {}
            ResponseEvent::Head(head) => status = head.status,
            ResponseEvent::Data(data) => body.extend_from_slice(data),
            ResponseEvent::End { exit_code, .. } => return (status, body, exit_code),
        }
    }
}

#[test]
fn calls_can_be_split_anywhere() {
    let (token, id) = (Token::parse("t").unwrap(), ExecId::parse(b"e1").unwrap());
    let args = [vec![], b"a b".to_vec(), b"\n\"'&=%+\\".to_vec(), (0..=255).collect()];
    let endpoint = "http://127.0.0.1:1/exec".parse().unwrap();
    let (tool, cwd) = (b"make", b"/workspace");
    let call = ExecCall { endpoint: &endpoint, token: &token, id: &id, tool, cwd, args: &args };
    let mut request = Vec::new();
    call.encode(1, &mut request);
    for cut in 0..=request.len() {
        assert_eq!(decode_request(&request, cut), args, "split at {cut}");
    }
}

#[test]
fn responses_can_be_split_anywhere() {
    let id = ExecId::parse(b"e1").unwrap();
    let mut buffered = Vec::new();
    encode_response(&mut buffered, (200, "OK"), Some(7), Some(&id), b"out\0put");
    let mut streamed = Vec::new();
    encode_stream_head(&mut streamed, Some(&id));
    for piece in [&b"o"[..], b"", b"ut\0", b"put"] {
        encode_chunk(&mut streamed, piece);
    }
    encode_stream_end(&mut streamed, 7);
    let mut refused = Vec::new();
    encode_refusal(&mut refused, &Refusal::Unauthorized, None);
    let rows = [
        (buffered, (200, b"out\0put".to_vec(), Some(7))),
        (streamed, (200, b"out\0put".to_vec(), Some(7))),
        (refused, (401, b"unauthorized\n".to_vec(), Some(86))),
    ];
    for (response, expected) in rows {
        for cut in 0..=response.len() {
            assert_eq!(decode_response(&response, cut), expected, "split at {cut}");
        }
    }
}

#[test]
fn truncated_streams_are_errors() {
    let mut streamed = Vec::new();
    encode_stream_head(&mut streamed, None);
    encode_chunk(&mut streamed, b"output");
    encode_stream_end(&mut streamed, 0);
    for cut in 0..streamed.len() {
        let mut client = ResponseReader::new(Limits::default());
        client.receive(&streamed[..cut]);
        client.receive_eof();
        let failed = loop {
            match client.next_event() {
                Ok(ResponseEvent::End { .. }) => break false,
                Ok(_) => {}
                Err(_) => break true,
            }
        };
        assert!(failed, "split at {cut}");
    }
}
