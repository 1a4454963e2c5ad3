//! Decodes and re-encodes the golden transcripts.

mod transcript;

use std::path::Path;

use aifo_types::{ExecId, Refusal, Token};
use aifo_wire::{
    BodyKind, CONTINUE, FrameKind, FrameReader, Limits, MAX_INVOCATION, RequestEvent, RequestHead,
    RequestReader, ResponseEvent, ResponseReader, encode_chunk, encode_invocation, encode_refusal,
    encode_response, encode_stream_end, encode_stream_head, encode_upgrade_head, parse_invocation,
};
use transcript::Transcript;

/// Decodes a request in pieces of `piece_len` bytes.
fn request(bytes: &[u8], piece_len: usize) -> Result<(RequestHead, Vec<u8>), Refusal> {
    let mut reader = RequestReader::new(Limits::default());
    let mut pieces = bytes.chunks(piece_len);
    let mut head: Option<RequestHead> = None;
    loop {
        let event = reader.next_event().map_err(|error| error.refusal(reader.limits()))?;
        match event {
            RequestEvent::NeedData => {
                reader.receive(pieces.next().expect("a complete request"));
            }
            RequestEvent::Head(parsed) => {
                if parsed.header("x-aifo-proto") == Some(b"3") {
                    reader.set_body_limit(MAX_INVOCATION);
                }
                head = Some(parsed);
            }
            RequestEvent::Body(body) => return Ok((head.expect("a head before the body"), body)),
        }
    }
}

/// Decodes a response and encodes it again.
fn reencode(response: &[u8]) -> Vec<u8> {
    let mut reader = ResponseReader::new(Limits::default());
    reader.receive(response);
    let Ok(ResponseEvent::Head(head)) = reader.next_event() else { panic!("no head") };
    let exec_id = head.exec_id.map(|id| ExecId::parse(id.as_bytes()).unwrap());
    if head.status == 101 {
        let mut out = Vec::new();
        encode_upgrade_head(&mut out, exec_id.as_ref());
        reencode_frames(&reader.take_rest(), &mut out);
        return out;
    }
    let mut data = Vec::new();
    let exit_code = loop {
        match reader.next_event().unwrap() {
            ResponseEvent::Data(piece) => data.push(piece.to_vec()),
            ResponseEvent::End { exit_code, .. } => break exit_code,
            other => panic!("{other:?}"),
        }
    };
    assert!(reader.take_rest().is_empty(), "bytes after the response");
    let mut out = Vec::new();
    if head.body == BodyKind::Chunked {
        encode_stream_head(&mut out, exec_id.as_ref());
        data.iter().for_each(|piece| encode_chunk(&mut out, piece));
        encode_stream_end(&mut out, exit_code.expect("an exit code"));
    } else {
        let status_line = response.split(|&byte| byte == b'\r').next().unwrap();
        let phrase = std::str::from_utf8(&status_line["HTTP/1.1 200 ".len()..]).unwrap();
        // A `Status` requires a static phrase.
        let phrase: &'static str = phrase.to_owned().leak();
        let status = (head.status, phrase);
        encode_response(&mut out, status, exit_code, exec_id.as_ref(), &data.concat());
    }
    out
}

/// Decodes the frames of a client connection up to `Exit` and encodes them again.
fn reencode_frames(frames: &[u8], out: &mut Vec<u8>) {
    let mut reader = FrameReader::for_client();
    reader.receive(frames);
    let mut last = None;
    while let Some(frame) = reader.next_frame().unwrap() {
        frame.encode(out);
        last = Some(frame.kind());
    }
    assert_eq!(last, Some(FrameKind::Exit), "`Exit` is last");
    assert!(!reader.is_within_frame());
}

#[test]
fn transcripts_round_trip() {
    let token = Token::parse("TOKEN").unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts");
    let transcripts = transcript::read_all(&directory);
    assert!(transcripts.len() >= 20, "only {} transcripts found", transcripts.len());
    for Transcript { name, sent, received } in transcripts {
        let decoded = request(&sent, sent.len());
        assert_eq!(decoded, request(&sent, 1), "{name}: byte by byte");
        let response = match &decoded {
            Ok((head, _)) if head.expects_continue() => {
                received.strip_prefix(CONTINUE).expect("an interim response")
            }
            _ => &received[..],
        };
        assert_eq!(
            reencode(response).escape_ascii().to_string(),
            response.escape_ascii().to_string(),
            "{name}"
        );
        match decoded {
            // A refusal by this crate is the whole response.
            Err(refusal) => {
                let mut refused = Vec::new();
                encode_refusal(&mut refused, &refusal, None);
                assert_eq!(refused, response, "{name}: {refusal:?}");
            }
            Ok((head, body)) => {
                if response.starts_with(b"HTTP/1.1 101 ") {
                    let id = ExecId::parse(b"e1").unwrap();
                    let request = parse_invocation(&body, id).expect("a valid invocation");
                    let mut again = Vec::new();
                    encode_invocation(&request, &mut again);
                    assert_eq!(again, body, "{name}");
                }
                let authorized = head.header("authorization").is_some_and(|v| token.authorizes(v));
                let refused_before = ["401", "404-path", "405"].iter().any(|n| name.starts_with(n));
                assert_eq!(authorized, !refused_before, "{name}");
            }
        }
    }
}
