//! The golden transcripts through both readers and every encoder.

mod transcript;

use std::path::Path;

use aifo_types::{ExecId, Refusal, Token};
use aifo_wire::{
    BodyKind, CONTINUE, FrameKind, FrameReader, Invocation, Limits, MAX_INVOCATION, RequestEvent,
    RequestHead, RequestReader, ResponseEvent, ResponseReader, encode_chunk, encode_refusal,
    encode_response, encode_stream_end, encode_stream_head, encode_upgrade_head,
};
use transcript::Transcript;

/// What the server makes of the request, in one piece or byte by byte.
fn request(bytes: &[u8], piece_len: usize) -> Result<(RequestHead, Vec<u8>), Refusal> {
    let mut reader = RequestReader::new(Limits::default());
    let mut pieces = bytes.chunks(piece_len);
    let mut head: Option<RequestHead> = None;
    loop {
        let event = reader.next_event().map_err(|error| error.refusal(reader.limits()))?;
        match event {
            RequestEvent::NeedData => {
                reader.receive(pieces.next().expect("the request is complete"));
            }
            RequestEvent::Head(parsed) => {
                if parsed.header("x-aifo-proto") == Some(b"3") {
                    reader.set_body_limit(MAX_INVOCATION);
                }
                head = Some(parsed);
            }
            RequestEvent::Body(body) => return Ok((head.expect("the head comes first"), body)),
        }
    }
}

/// Reads an answer and encodes what was understood anew.
fn encode_again(answer: &[u8]) -> Vec<u8> {
    let mut reader = ResponseReader::new(Limits::default());
    reader.receive(answer);
    let Ok(ResponseEvent::Head(head)) = reader.next_event() else { panic!("no head") };
    let exec_id = head.exec_id.map(|id| ExecId::parse(id.as_bytes()).unwrap());
    if head.status == 101 {
        let mut out = Vec::new();
        encode_upgrade_head(&mut out, exec_id.as_ref());
        encode_frames_again(&reader.take_rest(), &mut out);
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
    assert!(reader.take_rest().is_empty(), "the answer ends with its transcript");
    let mut out = Vec::new();
    if head.body == BodyKind::Chunked {
        encode_stream_head(&mut out, exec_id.as_ref());
        data.iter().for_each(|piece| encode_chunk(&mut out, piece));
        encode_stream_end(&mut out, exit_code.expect("every stream tells"));
    } else {
        let status_line = answer.split(|&byte| byte == b'\r').next().unwrap();
        let phrase = std::str::from_utf8(&status_line["HTTP/1.1 200 ".len()..]).unwrap();
        // The phrases are constants of the program; here one is read from a file.
        let phrase: &'static str = phrase.to_owned().leak();
        let status = (head.status, phrase);
        encode_response(&mut out, status, exit_code, exec_id.as_ref(), &data.concat());
    }
    out
}

/// Reads the frames of a client's connection, up to the ending, and encodes them anew.
fn encode_frames_again(frames: &[u8], out: &mut Vec<u8>) {
    let mut reader = FrameReader::for_client();
    reader.receive(frames);
    let mut last = None;
    while let Some(frame) = reader.next_frame().unwrap() {
        frame.encode(out);
        last = Some(frame.kind());
    }
    assert_eq!(last, Some(FrameKind::Exit), "the ending comes last");
    assert!(!reader.is_within_frame());
}

#[test]
fn requests_and_answers_are_understood_and_reproduced() {
    let token = Token::parse("TOKEN").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts");
    let transcripts = transcript::read_all(&folder);
    assert!(transcripts.len() >= 20, "the transcripts are where they should be");
    for Transcript { name, sent, received } in transcripts {
        let understood = request(&sent, sent.len());
        assert_eq!(understood, request(&sent, 1), "{name}: byte by byte");
        let answer = match &understood {
            Ok((head, _)) if head.expects_continue() => {
                received.strip_prefix(CONTINUE).expect("an interim answer")
            }
            _ => &received[..],
        };
        assert_eq!(
            encode_again(answer).escape_ascii().to_string(),
            answer.escape_ascii().to_string(),
            "{name}"
        );
        match understood {
            // What this crate refuses by itself is the whole answer.
            Err(refusal) => {
                let mut refused = Vec::new();
                encode_refusal(&mut refused, &refusal, None);
                assert_eq!(refused, answer, "{name}: {refusal:?}");
            }
            Ok((head, body)) => {
                if answer.starts_with(b"HTTP/1.1 101 ") {
                    let invocation = Invocation::parse(&body).expect("a call that was granted");
                    let mut again = Vec::new();
                    invocation.encode(&mut again);
                    assert_eq!(again, body, "{name}");
                }
                let authorized = head.header("authorization").is_some_and(|v| token.authorizes(v));
                let refused_before = ["401", "404-path", "405"].iter().any(|n| name.starts_with(n));
                assert_eq!(authorized, !refused_before, "{name}");
            }
        }
    }
}
