//! Properties of all input: codecs round-trip, splits do not matter, and invalid bytes neither
//! cause a panic nor exceed the limits.

mod strategy;

use std::time::Duration;

use aifo_types::{Ending, ExecRequest, FileId, Signal};
use aifo_wire::{
    CallNote, CancelCause, ChunkedDecoder, ClientHandover, ClientTransport, Delivery, Environment,
    Exit, FileAccess, Frame, FrameReader, Interrupt, Limits, Listener, ListenerReport, Loopback,
    OnlyCall, OutsideDirectory, Program, Reports, RequestEvent, RequestReader, ResourceUsage,
    ResponseEvent, ResponseReader, Setup, SocketResult, SocketType, Start, StartError,
    StartErrorCause, Step, Stream, decode_form, encode_chunk, encode_form, encode_invocation,
    encode_stream_end, parse_invocation,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use strategy::{c_string, exec_id, exec_request, pieces, stdio, window_size};

/// Bytes, biased towards the protocol.
fn wire_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => vec(any::<u8>(), 0..12),
        2 => Just(b"POST /exec HTTP/1.1\r\n".to_vec()),
        2 => Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
        2 => Just(b"Transfer-Encoding: chunked\r\n\r\n".to_vec()),
        1 => Just(b"Content-Length: 9\n\n".to_vec()),
        3 => Just(b"\r\n".to_vec()),
        1 => Just(b"5;x\r\nhello\r\n".to_vec()),
        1 => Just(b"0\r\nX-Exit-Code: 7\r\n\r\n".to_vec()),
        1 => Just(b"ffffffffffff\r\n".to_vec()),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Limits that random bytes reach.
fn small_limits() -> Limits {
    Limits {
        max_headers: 4,
        max_head: 80,
        max_body: 16,
        max_drain: 48,
        max_chunk_line: 8,
        max_trailer: 24,
        ..Limits::default()
    }
}

/// Returns a server's events, up to an error.
fn request_events(bytes: &[u8], lengths: &[usize]) -> Vec<String> {
    let mut reader = RequestReader::new(small_limits());
    let mut pieces = pieces(bytes, lengths);
    let mut events = Vec::new();
    let mut ended = false;
    loop {
        match reader.next_event() {
            Ok(RequestEvent::NeedData) if ended => return events,
            Ok(RequestEvent::NeedData) => match pieces.next() {
                Some(piece) => reader.receive(piece),
                None => {
                    reader.receive_eof();
                    ended = true;
                }
            },
            Ok(event) => {
                if let RequestEvent::Body(body) = &event {
                    assert!(body.len() <= 16, "within the limit");
                }
                events.push(format!("{event:?}"));
            }
            Err(error) => {
                events.push(format!("{error:?}"));
                return events;
            }
        }
    }
}

/// Returns a client's events, up to the end or an error, and the body.
fn response_events(bytes: &[u8], lengths: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut reader = ResponseReader::new(small_limits());
    let mut pieces = pieces(bytes, lengths);
    let (mut events, mut body) = (Vec::new(), Vec::new());
    loop {
        match reader.next_event() {
            Ok(ResponseEvent::NeedData) => match pieces.next() {
                Some(piece) => reader.receive(piece),
                None => reader.receive_eof(),
            },
            Ok(ResponseEvent::Data(data)) => body.extend_from_slice(data),
            Ok(ResponseEvent::Head(head)) => events.push(format!("{head:?}")),
            Ok(end) => {
                events.push(format!("{end:?}"));
                return (events, body);
            }
            Err(error) => {
                events.push(format!("{error:?}"));
                return (events, body);
            }
        }
    }
}

/// Returns all frames, up to an error.
fn frames(bytes: &[u8], lengths: &[usize]) -> Vec<String> {
    let mut reader = FrameReader::new();
    let mut events = Vec::new();
    for piece in pieces(bytes, lengths) {
        reader.receive(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => events.push(format!("{frame:?}")),
                Ok(None) => break,
                Err(error) => {
                    events.push(format!("{error:?}"));
                    return events;
                }
            }
        }
    }
    events
}

fn absolute() -> impl Strategy<Value = Vec<u8>> {
    c_string().prop_map(|tail| [b"/", &tail[..]].concat())
}

fn start() -> impl Strategy<Value = Start> {
    let outside_directory =
        prop_oneof![Just(OutsideDirectory::Refuse), Just(OutsideDirectory::UseRoot)];
    let environment =
        prop_oneof![Just(Environment::All), vec(c_string(), 0..5).prop_map(Environment::Only)];
    let bytes = || vec(any::<u8>(), 0..90);
    let transport = prop_oneof![Just(ClientTransport::Passed), Just(ClientTransport::Tunnelled)];
    let handover = (transport, bytes(), bytes());
    let handover = handover.prop_map(|(transport, response_head, received)| ClientHandover {
        transport,
        response_head,
        received,
    });
    let reports = prop_oneof![Just(Reports::StartAndExit), Just(Reports::ExitOnly)];
    let program = option::of(absolute()).prop_map(|path| path.map_or(Program::Tool, Program::File));
    let proxy_fields = (any::<u32>(), outside_directory, program, environment, option::of(bytes()));
    let cwd_id = any::<(u64, u64)>().prop_map(|(device, inode)| FileId { device, inode });
    let request = (option::of("[a-zé'/ ]{0,9}"), option::of(cwd_id), exec_request())
        .prop_map(|(no_network, cwd_id, request)| ExecRequest { no_network, cwd_id, ..request });
    (proxy_fields, option::of(handover), reports, request).prop_map(
        |((serial, outside_directory, program, environment, user), client, reports, request)| {
            let mut start = Start::new(request);
            start.set_serial(serial);
            start.outside_directory = outside_directory;
            start.program = program;
            start.user = user;
            start.environment = environment;
            start.client = client;
            start.reports = reports;
            start
        },
    )
}

fn cause() -> impl Strategy<Value = CancelCause> {
    (1..=3u8).prop_map(|code| CancelCause::from_code(code).unwrap())
}

fn exit() -> impl Strategy<Value = Exit> {
    let ending =
        prop_oneof![any::<u8>().prop_map(Ending::Exited), any::<u8>().prop_map(Ending::Signaled)];
    let note = option::of(select(&CallNote::ALL[..]));
    let parts = (ending, option::of(cause()), note, any::<u64>(), any::<[u64; 4]>());
    parts.prop_map(|(ending, cancelled, note, taken, [wall, user, system, max_rss_kib])| {
        let [wall, user, system] = [wall, user, system].map(Duration::from_micros);
        Exit {
            ending,
            cancelled,
            note,
            taken,
            usage: ResourceUsage { wall, user, system, max_rss_kib },
        }
    })
}

fn stream() -> impl Strategy<Value = Stream> {
    (0..=3u8).prop_map(|code| Stream::from_code(code).unwrap())
}

/// Frames of a control connection.
fn control_frame() -> impl Strategy<Value = Frame<'static>> {
    let signal = (1..32u8).prop_filter_map("no such signal", Signal::from_number);
    prop_oneof![
        start().prop_map(|start| Frame::Start(Box::new(start))),
        (any::<u32>(), cause(), 0..=1u8).prop_map(|(serial, cause, interrupt)| Frame::Cancel {
            serial,
            cause,
            interrupt: Interrupt::from_code(interrupt).unwrap(),
        }),
        (any::<u32>(), 1..=6u8, any::<String>()).prop_map(|(serial, cause, message)| {
            let cause = StartErrorCause::from_code(cause).unwrap();
            Frame::StartError { serial, error: StartError { cause, message } }
        }),
        any::<u32>().prop_map(|serial| Frame::Left { serial }),
        any::<u32>().prop_map(|serial| Frame::TunnelEnd { serial }),
        any::<u32>().prop_map(|serial| Frame::Tunnel { serial, data: b"\x02\0" }),
        any::<u8>().prop_map(|version| Frame::Hello { version }),
        (vec(absolute(), 1..4), vec(absolute(), 0..3))
            .prop_map(|(workspace, tmp)| Frame::Setup(Setup { workspace, tmp, kind: "go".into() })),
        (any::<u32>(), signal, exec_id()).prop_map(|(serial, signal, id)| Frame::Kill {
            serial,
            signal,
            id
        }),
        (any::<u32>(), 0..=1u8, 1..=u16::MAX, any::<String>()).prop_map(
            |(serial, code, port, text)| Frame::FindCaller {
                serial,
                socket: SocketType::from_code(code).unwrap(),
                port,
                only: OnlyCall::from_code(code).unwrap(),
                text,
            }
        ),
        (any::<u32>(), option::of(exec_id())).prop_map(|(serial, id)| Frame::Caller { serial, id }),
        (any::<u16>(), any::<u16>())
            .prop_map(|(interval, background)| Frame::Watch { interval, background }),
        vec((1..=u16::MAX, any::<u32>()), 0..4).prop_map(|listeners| {
            let listener = |(port, inode)| Listener { port, inode };
            let listeners = listeners.into_iter().map(listener).collect();
            Frame::Listeners { report: ListenerReport::Complete, listeners }
        }),
        (any::<u32>(), 1..=u16::MAX).prop_map(|(serial, port)| Frame::Bind { serial, port }),
        (any::<u32>(), 1..=u16::MAX).prop_map(|(serial, port)| Frame::Connect {
            serial,
            address: Loopback::V4,
            port
        }),
        (any::<u32>(), any::<u32>()).prop_map(|(serial, id)| Frame::Opened {
            serial,
            result: SocketResult::Refused,
            id
        }),
        (any::<u32>(), 0..=1u8, option::of(vec(any::<u8>(), 0..9)), vec(any::<u8>(), 0..90))
            .prop_map(|(serial, access, user, path)| Frame::OpenFile {
                serial,
                access: FileAccess::from_code(access).unwrap(),
                user,
                path,
            }),
        any::<(u32, u32)>().prop_map(|(serial, errno)| Frame::File { serial, errno }),
        (1..=u16::MAX).prop_map(|port| Frame::Unbind { port }),
        (any::<u32>(), 0..=1u8).prop_map(|(serial, found)| Frame::Killed {
            serial,
            found: Delivery::from_code(found).unwrap(),
        }),
    ]
}

/// Frames of a client connection except `Data`, which borrows.
fn client_frame() -> impl Strategy<Value = Frame<'static>> {
    prop_oneof![
        stream().prop_map(|stream| Frame::Closed { stream }),
        (stream(), any::<u32>()).prop_map(|(stream, bytes)| Frame::Credit { stream, bytes }),
        (1..=64u8).prop_map(|number| Frame::Signal { number }),
        window_size().prop_map(Frame::Resize),
        (any::<u32>(), any::<u32>(), stdio()).prop_map(|(serial, pid, stdio)| Frame::Started {
            serial,
            pid,
            stdio
        }),
        (1..=64u8, any::<u32>()).prop_map(|(signal, resumed)| Frame::Stopped { signal, resumed }),
        (any::<u32>(), exit()).prop_map(|(serial, exit)| Frame::Exit { serial, exit }),
        any::<String>().prop_map(|text| Frame::Refused { text }),
    ]
}

fn owned_frame() -> impl Strategy<Value = Frame<'static>> {
    prop_oneof![control_frame(), client_frame()]
}

proptest! {
    #[test]
    fn forms_round_trip(
        pairs in vec(("[a-z_=&%+é]{1,8}", vec(any::<u8>(), 0..60)), 0..20),
    ) {
        let body = encode_form(pairs.iter().map(|(key, value)| (key.as_str(), &value[..])));
        let form = decode_form(&body);
        let decoded: Vec<_> =
            form.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        let expected: Vec<_> = pairs.into_iter().map(|(k, v)| (k.into_bytes(), v)).collect();
        prop_assert_eq!(decoded, expected);
    }

    #[test]
    fn any_bytes_decode_as_a_form(body in vec(any::<u8>(), 0..200)) {
        let size: usize = decode_form(&body).iter().map(|(k, v)| k.len() + v.len()).sum();
        prop_assert!(size <= body.len());
    }

    #[test]
    fn chunks_round_trip(
        chunks in vec(vec(any::<u8>(), 0..300), 0..8),
        code in any::<u8>(),
        rest in vec(any::<u8>(), 0..8),
    ) {
        let mut wire = Vec::new();
        for chunk in &chunks {
            encode_chunk(&mut wire, chunk);
        }
        encode_stream_end(&mut wire, code);
        wire.extend_from_slice(&rest);
        let mut decoder = ChunkedDecoder::new(&Limits::default());
        let (mut input, mut data) = (&wire[..], Vec::new());
        loop {
            match decoder.decode(&mut input) {
                Ok(Step::Data(part)) => data.extend_from_slice(part),
                Ok(Step::End) => break,
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(data, chunks.concat());
        let code = code.to_string();
        prop_assert_eq!(decoder.trailer("x-exit-code"), Some(code.as_bytes()));
        prop_assert_eq!(input, &rest[..]);
    }

    #[test]
    fn frames_round_trip(
        frame in owned_frame(),
        stream in stream(),
        data in vec(any::<u8>(), 1..300),
    ) {
        let mut wire = Vec::new();
        frame.encode(&mut wire);
        Frame::Data { stream, data: &data }.encode(&mut wire);
        let mut reader = FrameReader::new();
        reader.receive(&wire);
        prop_assert_eq!(reader.next_frame(), Ok(Some(frame)));
        prop_assert_eq!(reader.next_frame(), Ok(Some(Frame::Data { stream, data: &data })));
        prop_assert_eq!(reader.next_frame(), Ok(None));
        prop_assert!(!reader.is_within_frame());
    }

    #[test]
    fn invocations_round_trip(
        request in exec_request(),
        cut in any::<proptest::sample::Index>(),
        more in vec(any::<u8>(), 1..9),
    ) {
        let mut body = Vec::new();
        encode_invocation(&request, &mut body);
        let parse = |body: &[u8]| parse_invocation(body, request.id.clone());
        prop_assert!(parse(&body[..cut.index(body.len())]).is_err());
        prop_assert!(parse(&[&body[..], &more].concat()).is_err());
        prop_assert_eq!(parse(&body), Ok(request));
    }

    /// With one byte changed, the body is invalid or re-encodes to itself.
    #[test]
    fn invocations_have_one_encoding(
        request in exec_request(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut body = Vec::new();
        encode_invocation(&request, &mut body);
        let at = at.index(body.len());
        body[at] = byte;
        if let Ok(decoded) = parse_invocation(&body, request.id) {
            let mut again = Vec::new();
            encode_invocation(&decoded, &mut again);
            prop_assert_eq!(again, body);
        }
    }

    #[test]
    fn splits_do_not_matter(bytes in wire_like(), lengths in vec(1..30usize, 1..8)) {
        let whole = [usize::MAX];
        prop_assert_eq!(request_events(&bytes, &lengths), request_events(&bytes, &whole));
        prop_assert_eq!(response_events(&bytes, &lengths), response_events(&bytes, &whole));
        prop_assert_eq!(frames(&bytes, &lengths), frames(&bytes, &whole));
    }

    #[test]
    fn frames_can_be_split_anywhere(
        sent in vec(owned_frame(), 0..5),
        tail in vec(any::<u8>(), 0..20),
        lengths in vec(1..50usize, 1..8),
    ) {
        let mut wire = Vec::new();
        sent.iter().for_each(|frame| frame.encode(&mut wire));
        wire.extend_from_slice(&tail);
        prop_assert_eq!(frames(&wire, &lengths), frames(&wire, &[usize::MAX]));
    }

    #[test]
    fn requests_are_buffered_within_limits(bytes in wire_like(), endless in any::<[u8; 32]>()) {
        let mut reader = RequestReader::new(small_limits());
        reader.receive(&bytes);
        for _ in 0..64 {
            let need_data = loop {
                match reader.next_event() {
                    Ok(RequestEvent::NeedData) => break true,
                    Ok(RequestEvent::Body(_)) | Err(_) => break false,
                    Ok(RequestEvent::Head(_)) => {}
                }
            };
            if !need_data {
                break;
            }
            prop_assert!(reader.buffer().len() <= 80, "a head at most");
            reader.receive(&endless);
        }
    }
}
