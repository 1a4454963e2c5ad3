//! Properties of messages with any content, split anywhere: they round-trip, and truncated ones are
//! errors.

mod decode;
mod strategy;

use aifo_types::{Endpoint, ExecId, Signal, Token};
use aifo_wire::{
    ClientMode, ExecCall, Form, Frame, FrameError, FrameKind, FrameReader, Limits, MAX_PAYLOAD,
    MAX_START, MessageError, RequestEvent, RequestHead, RequestReader, ResponseEvent,
    ResponseReader, SidecarLimit, ToolEnd, Upgrade, decode_form, encode_chunk, encode_frame_head,
    encode_notify, encode_response, encode_signal, encode_stream_end, encode_stream_end_limited,
    encode_stream_end_unknown, encode_stream_head, encode_upgrade_head, parse_invocation,
};
use proptest::collection::vec;
use proptest::prelude::*;
use strategy::{exec_id, exec_request, pieces};

fn decode_request<'a>(
    mut pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<(RequestHead, Vec<u8>), MessageError> {
    decode::request(&mut RequestReader::new(Limits::default()), &mut pieces)
}

fn decode_response<'a>(
    mut pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<decode::Response, MessageError> {
    decode::response(&mut ResponseReader::new(Limits::default()), &mut pieces)
}

fn all(form: &Form, key: &str) -> Vec<Vec<u8>> {
    form.all(key).map(<[u8]>::to_vec).collect()
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..60)
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    vec(1..90usize, 1..6)
}

fn signal() -> impl Strategy<Value = Signal> {
    let signals: Vec<Signal> = (1..=31).filter_map(Signal::from_number).collect();
    proptest::sample::select(signals)
}

fn token() -> impl Strategy<Value = Token> {
    "[!-<>-~]{1,40}".prop_map(|token| Token::parse(&token).unwrap())
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let urls = ["unix:///run/aifo.sock", "http://127.0.0.1:80/exec", "http://[::1]:1/a/b/exec"];
    proptest::sample::select(urls.to_vec()).prop_map(|url| url.parse().unwrap())
}

proptest! {
    #[test]
    fn calls_round_trip(
        endpoint in endpoint(),
        token in token(),
        id in exec_id(),
        proto in 1..=2u8,
        [tool, cwd] in [bytes(), bytes()],
        args in vec(bytes(), 0..8),
        lengths in lengths(),
    ) {
        let call = ExecCall {
            endpoint: &endpoint, token: &token, id: &id, tool: &tool, cwd: &cwd, args: &args,
        };
        let mut wire = Vec::new();
        call.encode(proto, &mut wire);
        let (head, body) = decode_request(pieces(&wire, &lengths)).unwrap();
        prop_assert_eq!(head.path(), endpoint.path("exec"));
        prop_assert!(token.authorizes(head.header("authorization").unwrap()));
        let proto = proto.to_string();
        prop_assert_eq!(head.header("x-aifo-proto"), Some(proto.as_bytes()));
        prop_assert_eq!(head.header("x-aifo-exec-id"), Some(id.as_str().as_bytes()));
        let form = decode_form(&body);
        prop_assert_eq!((all(&form, "tool"), all(&form, "cwd")), (vec![tool], vec![cwd]));
        prop_assert_eq!(all(&form, "arg"), args);
    }

    /// Frames sent with the request are preserved.
    #[test]
    fn upgrades_round_trip(
        endpoint in endpoint(),
        token in token(),
        request in exec_request(),
        number in 1..=64u8,
        lengths in lengths(),
    ) {
        let call = Upgrade { endpoint: &endpoint, token: &token, request: &request };
        let mut wire = Vec::new();
        call.encode(&mut wire);
        Frame::Signal { number }.encode(&mut wire);
        let mut pieces = pieces(&wire, &lengths);
        let mut server = RequestReader::new(Limits::default());
        let (mut head, mut body) = (None, None);
        while body.is_none() {
            match server.next_event().unwrap() {
                RequestEvent::NeedData => server.receive(pieces.next().unwrap()),
                RequestEvent::Head(read) => head = Some(read),
                RequestEvent::Body(read) => body = Some(read),
            }
        }
        let head = head.unwrap();
        prop_assert_eq!(head.path(), endpoint.path("exec"));
        prop_assert!(token.authorizes(head.header("authorization").unwrap()));
        prop_assert_eq!(head.header("x-aifo-proto"), Some(&b"3"[..]));
        prop_assert_eq!(head.header("upgrade"), Some(&b"aifo-exec"[..]));
        let id = ExecId::parse(head.header("x-aifo-exec-id").unwrap()).unwrap();
        prop_assert_eq!(parse_invocation(&body.unwrap(), id), Ok(request));
        let mut frames = FrameReader::for_client();
        frames.receive(&server.take_rest());
        pieces.for_each(|piece| frames.receive(piece));
        prop_assert_eq!(frames.next_frame(), Ok(Some(Frame::Signal { number })));
        prop_assert!(!frames.is_within_frame());
    }

    /// Frames sent with the response head are preserved.
    #[test]
    fn upgrade_responses_round_trip(
        id in proptest::option::of(exec_id()),
        number in 1..=64u8,
        lengths in lengths(),
    ) {
        let mut wire = Vec::new();
        encode_upgrade_head(&mut wire, id.as_ref());
        Frame::Signal { number }.encode(&mut wire);
        let mut pieces = pieces(&wire, &lengths);
        let mut client = ResponseReader::new(Limits::default());
        let head = loop {
            match client.next_event().unwrap() {
                ResponseEvent::NeedData => client.receive(pieces.next().unwrap()),
                ResponseEvent::Head(head) => break head,
                other => prop_assert!(false, "{other:?}"),
            }
        };
        prop_assert_eq!(head.status, 101);
        prop_assert_eq!(head.exec_id, id.map(|id| id.to_string()));
        let mut frames = FrameReader::for_client();
        frames.receive(&client.take_rest());
        pieces.for_each(|piece| frames.receive(piece));
        prop_assert_eq!(frames.next_frame(), Ok(Some(Frame::Signal { number })));
        prop_assert!(!frames.is_within_frame());
    }

    #[test]
    fn signals_round_trip(id in exec_id(), signal in signal(), lengths in lengths()) {
        let (endpoint, token) = ("unix:///s".parse().unwrap(), Token::parse("t").unwrap());
        let mut wire = Vec::new();
        encode_signal(&mut wire, &endpoint, &token, &id, signal);
        let (head, body) = decode_request(pieces(&wire, &lengths)).unwrap();
        prop_assert_eq!(head.path(), "/signal");
        let form = decode_form(&body);
        prop_assert_eq!(form.last("exec_id"), Some(id.as_str().as_bytes()));
        let name = std::str::from_utf8(form.last("signal").unwrap()).unwrap();
        prop_assert_eq!(Signal::parse(name), Some(signal));
    }

    #[test]
    fn notifications_round_trip(cmd in bytes(), args in vec(bytes(), 0..8), lengths in lengths()) {
        let (endpoint, token) = ("unix:///s".parse().unwrap(), Token::parse("t").unwrap());
        let mut wire = Vec::new();
        encode_notify(&mut wire, &endpoint, &token, &cmd, &args, ClientMode::Attached);
        let (head, body) = decode_request(pieces(&wire, &lengths)).unwrap();
        prop_assert_eq!(head.path(), "/notify");
        let form = decode_form(&body);
        prop_assert_eq!((all(&form, "cmd"), all(&form, "arg")), (vec![cmd], args));
    }

    #[test]
    fn chunked_bodies_with_extensions_are_decoded(
        chunks in vec((vec(any::<u8>(), 1..60), "(;[a-z=\"]{0,20})?"), 0..8),
        lengths in lengths(),
    ) {
        let mut wire = b"POST /exec HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for (data, extension) in &chunks {
            wire.extend_from_slice(format!("{:X}{extension}\r\n", data.len()).as_bytes());
            wire.extend_from_slice(&[data, &b"\r\n"[..]].concat());
        }
        wire.extend_from_slice(b"0\r\n\r\n");
        let (_, body) = decode_request(pieces(&wire, &lengths)).unwrap();
        let sent: Vec<u8> = chunks.into_iter().flat_map(|(data, _)| data).collect();
        prop_assert_eq!(body, sent);
    }

    #[test]
    fn plain_responses_round_trip(
        status in 200..=599u16,
        code in any::<Option<u8>>(),
        id in proptest::option::of(exec_id()),
        body in bytes(),
        lengths in lengths(),
    ) {
        // These never have a body.
        prop_assume!(!matches!(status, 204 | 304));
        let mut wire = Vec::new();
        encode_response(&mut wire, (status, "Any Phrase"), code, id.as_ref(), &body);
        let expected = (status, body, code, ToolEnd::Exited);
        prop_assert_eq!(decode_response(pieces(&wire, &lengths)), Ok(expected));
    }

    #[test]
    fn streams_round_trip(
        chunks in vec(bytes(), 0..8),
        code in any::<u8>(),
        tool_end in tool_end(),
        lengths in lengths(),
    ) {
        let (wire, body) = stream(&chunks, code, tool_end);
        let code = if tool_end == ToolEnd::Unknown { 125 } else { code };
        let expected = (200, body, Some(code), tool_end);
        prop_assert_eq!(decode_response(pieces(&wire, &lengths)), Ok(expected));
    }

    #[test]
    fn truncated_calls_are_errors(
        id in exec_id(),
        args in vec(bytes(), 0..4),
        cut in any::<proptest::sample::Index>(),
        lengths in lengths(),
    ) {
        let (endpoint, token) = ("unix:///s".parse().unwrap(), Token::parse("t").unwrap());
        let (tool, cwd) = (b"make", b"/workspace");
        let call = ExecCall { endpoint: &endpoint, token: &token, id: &id, tool, cwd, args: &args };
        let mut wire = Vec::new();
        call.encode(2, &mut wire);
        wire.truncate(cut.index(wire.len()));
        prop_assert_eq!(decode_request(pieces(&wire, &lengths)), Err(MessageError::Truncated));
    }

    #[test]
    fn truncated_upgrades_are_errors(
        request in exec_request(),
        cut in any::<proptest::sample::Index>(),
        lengths in lengths(),
    ) {
        let (endpoint, token) = ("unix:///s".parse().unwrap(), Token::parse("t").unwrap());
        let call = Upgrade { endpoint: &endpoint, token: &token, request: &request };
        let mut wire = Vec::new();
        call.encode(&mut wire);
        wire.truncate(cut.index(wire.len()));
        prop_assert_eq!(decode_request(pieces(&wire, &lengths)), Err(MessageError::Truncated));
    }

    #[test]
    fn truncated_streams_are_errors(
        chunks in vec(bytes(), 0..4),
        code in any::<u8>(),
        tool_end in tool_end(),
        cut in any::<proptest::sample::Index>(),
        lengths in lengths(),
    ) {
        let (mut wire, _) = stream(&chunks, code, tool_end);
        wire.truncate(cut.index(wire.len()));
        prop_assert_eq!(decode_response(pieces(&wire, &lengths)), Err(MessageError::Truncated));
    }

    #[test]
    fn long_frames_are_rejected_by_their_head(
        code in any::<u8>(),
        excess in 1..=u32::MAX as usize - MAX_START,
    ) {
        let Some(kind) = FrameKind::from_code(code) else { return Ok(()) };
        let max_start = if kind == FrameKind::Start { MAX_START } else { MAX_PAYLOAD };
        let control = (FrameReader::new(), max_start);
        for (mut reader, max) in [control, (FrameReader::for_client(), MAX_PAYLOAD)] {
            let mut wire = Vec::new();
            encode_frame_head(&mut wire, kind, max + excess);
            reader.receive(&wire);
            let len = (max + excess) as u32;
            prop_assert_eq!(reader.next_frame(), Err(FrameError::TooLong { kind, len }));
        }
    }

    #[test]
    fn responses_are_buffered_within_limits(start in bytes(), endless in any::<[u8; 32]>()) {
        let limits = Limits { max_head: 80, max_trailer: 24, ..Limits::default() };
        let mut reader = ResponseReader::new(limits);
        reader.receive(b"HTTP/1.1 200 OK\r\n");
        reader.receive(&start);
        for _ in 0..64 {
            loop {
                match reader.next_event() {
                    Ok(
                        ResponseEvent::Progress(_)
                        | ResponseEvent::Approval(_)
                        | ResponseEvent::Head(_)
                        | ResponseEvent::Data(_),
                    ) => {}
                    Ok(ResponseEvent::NeedData) => break,
                    Ok(ResponseEvent::End { .. }) | Err(_) => return Ok(()),
                }
            }
            prop_assert!(reader.buffer().len() <= 80, "a head at most");
            reader.receive(&endless);
        }
    }
}

fn tool_end() -> impl Strategy<Value = ToolEnd> {
    let limited = SidecarLimit::ALL.map(ToolEnd::Limited);
    proptest::sample::select([&[ToolEnd::Exited, ToolEnd::Unknown], &limited[..]].concat())
}

/// Encodes a streamed response. Returns it and the output in it.
fn stream(chunks: &[Vec<u8>], code: u8, tool_end: ToolEnd) -> (Vec<u8>, Vec<u8>) {
    let mut wire = Vec::new();
    encode_stream_head(&mut wire, None);
    chunks.iter().for_each(|chunk| encode_chunk(&mut wire, chunk));
    match tool_end {
        ToolEnd::Exited => encode_stream_end(&mut wire, code),
        ToolEnd::Limited(limit) => encode_stream_end_limited(&mut wire, limit, code),
        ToolEnd::Unknown => encode_stream_end_unknown(&mut wire),
    }
    (wire, chunks.concat())
}
