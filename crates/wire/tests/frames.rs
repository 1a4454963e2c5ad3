//! Frames byte for byte, and invalid frames.
//!
//! Proves `spec/runner.md#frames`.

use std::net::SocketAddrV4;
use std::time::Duration;

use aifo_types::{Ending, ExecId, ExecRequest, FileId, Signal, Stdio, ToolName, WindowSize};
use aifo_wire::{
    CallNote, CancelCause, ClientHandover, ClientTransport, Delivery, Environment, Exit,
    FileAccess, Frame, FrameError, FrameKind, FrameReader, Interrupt, Listener, ListenerReport,
    Loopback, MAX_NET_DATA, MAX_PAYLOAD, NetFrame, OnlyCall, OutsideDirectory, Program, Reports,
    ResourceUsage, Setup, SocketResult, SocketType, Start, StartError, StartErrorCause, Stream,
    encode_frame_head, encode_invocation,
};

/// Reads `wire` whole, byte by byte, and followed by the head of another frame.
#[track_caller]
fn check(wire: &[u8], expected: Result<Frame<'_>, FrameError>) {
    let mut reader = FrameReader::new();
    reader.receive(wire);
    assert_eq!(reader.next_frame(), expected.clone().map(Some), "whole");
    match expected {
        Ok(_) => assert_eq!(reader.next_frame(), Ok(None), "one frame"),
        Err(error) => assert_eq!(reader.next_frame(), Err(error), "repeated error"),
    }

    let mut reader = FrameReader::new();
    for (index, byte) in wire.iter().enumerate() {
        reader.receive(&[*byte]);
        match reader.next_frame() {
            Ok(None) => assert!(reader.is_within_frame()),
            end => {
                assert_eq!(end, expected.clone().map(Some), "byte by byte");
                assert!(expected.is_err() || index + 1 == wire.len(), "not before the end");
            }
        }
    }

    let mut reader = FrameReader::new();
    reader.receive(wire);
    reader.receive(&[0x20, 0, 0]);
    assert_eq!(reader.next_frame(), expected.clone().map(Some), "with trailing bytes");
    if expected.is_ok() {
        assert_eq!(reader.next_frame(), Ok(None));
        reader.receive(&[0, 1, 3]);
        let next = Ok(Some(Frame::Hello { version: 3 }));
        assert_eq!(reader.next_frame(), next, "trailing bytes untouched");
    }
}

/// Checks that `frame` is encoded as `wire` and decoded from it.
#[track_caller]
fn check_both_ways(frame: Frame<'_>, wire: &[u8]) {
    let mut encoded = Vec::new();
    frame.encode(&mut encoded);
    assert_eq!(encoded.escape_ascii().to_string(), wire.escape_ascii().to_string(), "{frame:?}");
    check(wire, Ok(frame));
}

fn id() -> ExecId {
    ExecId::parse(b"e1").unwrap()
}

fn request() -> ExecRequest {
    ExecRequest::new(id(), ToolName::parse(b"cc").unwrap())
}

#[test]
fn start_frames() {
    let (args, cwd) = (vec![vec![], b"\xff".to_vec()], Some(b"/w".to_vec()));
    let mut full = Start::new(ExecRequest { args, cwd, ..request() });
    full.request.inherited.environment = vec![b"CI=1".to_vec()];
    full.request.no_network = Some("'f' line 1".to_owned());
    full.request.cwd_id = Some(FileId { device: 3, inode: u64::MAX });
    full.set_serial(7);
    full.outside_directory = OutsideDirectory::UseRoot;
    full.program = Program::File(b"/usr/bin/make".to_vec());
    full.user = Some(b"me:7".to_vec());
    full.environment = Environment::Only(vec![b"PATH".to_vec(), b"LC_*".to_vec()]);
    full.client = Some(ClientHandover {
        transport: ClientTransport::Tunnelled,
        response_head: b"101\r\n".to_vec(),
        received: b"\x06".to_vec(),
    });
    check_both_ways(
        Frame::Start(Box::new(full)),
        b"\x01\0\0\0\xa0\0\0\0\x07\x01\0\0\0\x02e1\x01\0\0\0\x0d/usr/bin/make\
          \x01\0\0\0\x02\0\0\0\x04PATH\0\0\0\x04LC_*\x02\0\0\0\x05101\r\n\0\0\0\x01\x06\x01\
          \x01\0\0\0\x0a'f' line 1\x01\0\0\0\0\0\0\0\x03\xff\xff\xff\xff\xff\xff\xff\xff\
          \x01\0\0\0\x04me:7\0\0\0\x03\0\0\0\x02cc\0\0\0\0\0\0\0\x01\xff\x01\0\0\0\x02/w\
          \0\0\0\x01\0\0\0\x04CI=1\0\0\0\0\0\0\0\0\0\0\0\0\x01\x05\0",
    );
    let mut least = Start::new(request());
    least.set_serial(u32::MAX);
    least.reports = Reports::ExitOnly;
    check_both_ways(
        Frame::Start(Box::new(least)),
        b"\x01\0\0\0\x30\xff\xff\xff\xff\0\0\0\0\x02e1\0\0\0\0\
          \0\0\0\0\0\0\x01\0\0\0\x02cc\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x05\0",
    );
}

#[test]
fn a_program_as_called_may_be_named_by_any_bytes() {
    let mut start = Start::new(ExecRequest {
        program: Some(b"./a\0".to_vec()),
        args: vec![b"\0".to_vec()],
        cwd: Some(b"sub".to_vec()),
        ..ExecRequest::new(id(), ToolName::parse(b"program").unwrap())
    });
    start.request.inherited.environment = vec![b"no variable".to_vec()];
    start.program = Program::AsCalled;
    check_both_ways(
        Frame::Start(Box::new(start)),
        b"\x01\0\0\0\x4d\0\0\0\0\0\0\0\0\x02e1\x02\0\0\x01\0\0\0\
          \0\0\0\x02\0\0\0\x04./a\0\0\0\0\x01\0\x01\0\0\0\x03sub\
          \0\0\0\x01\0\0\0\x0bno variable\0\0\0\0\0\0\0\0\0\0\0\0\x01\x05\0",
    );
}

#[test]
fn files() {
    let (user, path) = (Some(b"me".to_vec()), b"/a\xff".to_vec());
    check_both_ways(
        Frame::OpenFile { serial: 7, access: FileAccess::Write, user, path: path.clone() },
        b"\x32\0\0\0\x0f\0\0\0\x07\x01\x01\0\0\0\x02me/a\xff",
    );
    check_both_ways(
        Frame::OpenFile { serial: 7, access: FileAccess::Read, user: None, path },
        b"\x32\0\0\0\x09\0\0\0\x07\0\0/a\xff",
    );
    check_both_ways(Frame::File { serial: 7, errno: 2 }, b"\x33\0\0\0\x08\0\0\0\x07\0\0\0\x02");
}

#[test]
fn other_frames_of_a_control_connection() {
    check_both_ways(
        Frame::Cancel { serial: 7, cause: CancelCause::Disconnect, interrupt: Interrupt::Skip },
        b"\x05\0\0\0\x06\0\0\0\x07\x02\x01",
    );
    check_both_ways(
        Frame::StartError {
            serial: 7,
            error: StartError {
                cause: StartErrorCause::NotFound,
                message: "no '\u{e9}'".to_owned(),
            },
        },
        b"\x14\0\0\0\x0c\0\0\0\x07\x03no '\xc3\xa9'",
    );
    check_both_ways(Frame::Tunnel { serial: 7, data: b"hi" }, b"\x08\0\0\0\x06\0\0\0\x07hi");
    check_both_ways(Frame::TunnelEnd { serial: 7 }, b"\x09\0\0\0\x04\0\0\0\x07");
    check_both_ways(Frame::Left { serial: 7 }, b"\x16\0\0\0\x04\0\0\0\x07");
    check_both_ways(Frame::Hello { version: 3 }, b"\x20\0\0\0\x01\x03");
    check_both_ways(
        Frame::Setup(Setup {
            workspace: vec![b"/w".to_vec(), b"/x".to_vec()],
            tmp: vec![b"/t".to_vec()],
            kind: "rust".into(),
        }),
        b"\x21\0\0\0\x22\0\0\0\x02\0\0\0\x02/w\0\0\0\x02/x\0\0\0\x01\0\0\0\x02/t\0\0\0\x04rust",
    );
    check_both_ways(
        Frame::Kill { serial: 7, signal: Signal::Term, id: id() },
        b"\x23\0\0\0\x07\0\0\0\x07\x0fe1",
    );
    check_both_ways(
        Frame::Killed { serial: 7, found: Delivery::NoSuchExec },
        b"\x24\0\0\0\x05\0\0\0\x07\x01",
    );
    check_both_ways(Frame::Retire, b"\x25\0\0\0\0");
    check_both_ways(Frame::Busy, b"\x26\0\0\0\0");
    check_both_ways(Frame::Listen { ports: vec![443, 80] }, b"\x27\0\0\0\x04\x01\xbb\0\x50");
    check_both_ways(Frame::Listening { error: String::new() }, b"\x28\0\0\0\0");
    check_both_ways(Frame::Listening { error: "no".to_owned() }, b"\x28\0\0\0\x02no");
    let find = Frame::FindCaller {
        serial: 7,
        socket: SocketType::Stream,
        port: 443,
        only: OnlyCall::Yes,
        text: "x".to_owned(),
    };
    check_both_ways(find, b"\x30\0\0\0\x09\0\0\0\x07\x01\x01\xbb\x01x");
    let caller = Frame::Caller { serial: 7, id: Some(id()) };
    check_both_ways(caller, b"\x31\0\0\0\x06\0\0\0\x07e1");
    check_both_ways(Frame::Caller { serial: 7, id: None }, b"\x31\0\0\0\x04\0\0\0\x07");
    check_both_ways(Frame::Refused { text: "no".to_owned() }, b"\x17\0\0\0\x02no");
    check_both_ways(Frame::Watch { interval: 20, background: 256 }, b"\x29\0\0\0\x04\0\x14\x01\0");
    check_both_ways(
        Frame::Listeners {
            report: ListenerReport::Truncated,
            listeners: vec![Listener { port: 3000, inode: 7 }],
        },
        b"\x2a\0\0\0\x07\x01\x0b\xb8\0\0\0\x07",
    );
    check_both_ways(Frame::Bind { serial: 7, port: 3000 }, b"\x2b\0\0\0\x06\0\0\0\x07\x0b\xb8");
    check_both_ways(
        Frame::Connect { serial: 7, address: Loopback::V6, port: 80 },
        b"\x2c\0\0\0\x07\0\0\0\x07\x01\0\x50",
    );
    check_both_ways(
        Frame::Opened { serial: 7, result: SocketResult::InUse, id: 3 },
        b"\x2d\0\0\0\x09\0\0\0\x07\x01\0\0\0\x03",
    );
    check_both_ways(Frame::Unbind { port: 3000 }, b"\x2e\0\0\0\x02\x0b\xb8");
}

#[test]
fn frames_of_a_network_stack() {
    let dialled = SocketAddrV4::new([127, 64, 0, 1].into(), 443);
    let peer = SocketAddrV4::new([127, 0, 0, 1].into(), 258);
    let net = |frame, wire: &[u8]| check_both_ways(Frame::Net(frame), wire);
    net(
        NetFrame::Open { connection: 7, dialled, peer },
        b"\x40\0\0\0\x10\0\0\0\x07\x7f\x40\0\x01\x01\xbb\x7f\0\0\x01\x01\x02",
    );
    net(NetFrame::Data { connection: 7, data: b"hi" }, b"\x41\0\0\0\x06\0\0\0\x07hi");
    net(NetFrame::End { connection: 7 }, b"\x42\0\0\0\x04\0\0\0\x07");
    net(NetFrame::Reset { connection: 7 }, b"\x43\0\0\0\x04\0\0\0\x07");
    net(NetFrame::Credit { connection: 7, bytes: 258 }, b"\x44\0\0\0\x08\0\0\0\x07\0\0\x01\x02");
    net(NetFrame::Query { peer, data: b"?" }, b"\x45\0\0\0\x07\x7f\0\0\x01\x01\x02?");
    net(NetFrame::Answer { peer, data: b"" }, b"\x46\0\0\0\x06\x7f\0\0\x01\x01\x02");
}

#[test]
fn long_data_of_a_connection_is_several_frames() {
    let data = vec![7; MAX_NET_DATA + 1];
    let mut wire = Vec::new();
    Frame::Net(NetFrame::Data { connection: 1, data: &data }).encode(&mut wire);
    let mut reader = FrameReader::new();
    reader.receive(&wire);
    let mut lengths = Vec::new();
    while let Some(Frame::Net(NetFrame::Data { data, .. })) = reader.next_frame().unwrap() {
        lengths.push(data.len());
    }
    assert_eq!(lengths, [MAX_NET_DATA, 1]);
}

#[test]
fn frames_of_a_client_connection() {
    check_both_ways(Frame::Data { stream: Stream::Stderr, data: b"hi" }, b"\x02\0\0\0\x03\x02hi");
    check_both_ways(Frame::Closed { stream: Stream::Stdin }, b"\x03\0\0\0\x01\0");
    check_both_ways(
        Frame::Credit { stream: Stream::Terminal, bytes: 65_538 },
        b"\x04\0\0\0\x05\x03\0\x01\0\x02",
    );
    check_both_ways(Frame::Signal { number: 1 }, b"\x06\0\0\0\x01\x01");
    check_both_ways(Frame::Signal { number: 64 }, b"\x06\0\0\0\x01\x40");
    check_both_ways(
        Frame::Resize(WindowSize { rows: 24, columns: 80, x_pixels: 257, y_pixels: 0 }),
        b"\x07\0\0\0\x08\0\x18\0\x50\x01\x01\0\0",
    );
    check_both_ways(
        Frame::Started {
            serial: 7,
            pid: 258,
            stdio: [Stdio::Relayed, Stdio::Terminal, Stdio::Same],
        },
        b"\x10\0\0\0\x0b\0\0\0\x07\0\0\x01\x02\x02\x03\x05",
    );
    check_both_ways(Frame::Stopped { signal: 20, resumed: 3 }, b"\x15\0\0\0\x05\x14\0\0\0\x03");
}

#[test]
fn exit_frames() {
    let usage = ResourceUsage {
        wall: Duration::from_micros(1),
        user: Duration::from_micros(2),
        system: Duration::from_micros(3),
        max_rss_kib: 4,
    };
    check_both_ways(
        Frame::Exit {
            serial: 7,
            exit: Exit {
                ending: Ending::Exited(3),
                cancelled: None,
                note: None,
                taken: 258,
                usage,
            },
        },
        b"\x13\0\0\0\x30\0\0\0\x07\0\x03\0\0\0\0\0\0\0\0\x01\x02\
          \0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04",
    );
    let causes = [CancelCause::Timeout, CancelCause::Disconnect, CancelCause::Shutdown];
    for (cause, code) in causes.into_iter().zip(1..) {
        let usage = ResourceUsage::default();
        let ending = Ending::Signaled(9);
        let exit = Exit { ending, cancelled: Some(cause), note: None, taken: 0, usage };
        let head = b"\x13\0\0\0\x30\0\0\0\x07\x01\x09";
        let wire = [&head[..], &[code], &[0; 41]].concat();
        check_both_ways(Frame::Exit { serial: 7, exit }, &wire);
    }
    for (note, code) in CallNote::ALL.into_iter().zip(1..) {
        let (ending, usage) = (Ending::Exited(2), ResourceUsage::default());
        let exit = Exit { ending, cancelled: None, note: Some(note), taken: 0, usage };
        let head = b"\x13\0\0\0\x30\0\0\0\x07\0\x02\0";
        let wire = [&head[..], &[code], &[0; 40]].concat();
        check_both_ways(Frame::Exit { serial: 7, exit }, &wire);
    }
}

#[test]
fn invalid_heads() {
    // The last two were frame kinds of version 1.
    for kind in [0, 0x0a, 0x12, 0x18, 0x2f, 0xff, 0x11, 0x22] {
        check(&[kind, 0, 0, 0, 0], Err(FrameError::UnknownKind(kind)));
    }
    let too_long = |kind, len| Err(FrameError::TooLong { kind, len });
    check(b"\x02\0\x01\0\x01", too_long(FrameKind::Data, 65_537));
    check(b"\x01\0\x42\0\x01", too_long(FrameKind::Start, 4 * 1024 * 1024 + 128 * 1024 + 1));
    check(b"\x20\xff\xff\xff\xff", too_long(FrameKind::Hello, u32::MAX));
}

#[test]
fn invalid_payloads() {
    let rows: [(FrameKind, &[u8]); 67] = [
        (FrameKind::Data, b""),
        (FrameKind::Data, b"\x01"),
        (FrameKind::Data, b"\x04x"),
        (FrameKind::Closed, b""),
        (FrameKind::Closed, b"\x04"),
        (FrameKind::Closed, b"\0\0"),
        (FrameKind::Credit, b"\0\0\0\x01"),
        (FrameKind::Credit, b"\x04\0\0\0\x01"),
        (FrameKind::Cancel, b"\0\0\0\x07\0\0"),
        (FrameKind::Cancel, b"\0\0\0\x07\x04\0"),
        (FrameKind::Cancel, b"\0\0\0\x07\x01\x02"),
        (FrameKind::Cancel, b"\x01\0"),
        (FrameKind::Cancel, b"\0\0\0\x07\x01\0\0"),
        (FrameKind::Signal, b"\0"),
        (FrameKind::Signal, b"\x41"),
        (FrameKind::Resize, b"\0\x18\0\x50\0\0\0"),
        (FrameKind::Started, b"\0\0\0\x07\0\0\0\x01\0\0"),
        (FrameKind::Started, b"\0\0\0\x07\0\0\0\x01\0\0\x06"),
        (FrameKind::Started, b"\0\0\0\x07\0\0\0\x01\0\x05\0"),
        (FrameKind::StartError, b"\0\0\0\x07\x07"),
        (FrameKind::StartError, b"\0\0\0\x07\x01\xff"),
        (FrameKind::Stopped, b"\x14\0\0\0"),
        (FrameKind::Left, b"\0\0\0\x07\0"),
        (FrameKind::Tunnel, b"\0\0\0\x07"),
        (FrameKind::Tunnel, b"\0\0\x07"),
        (FrameKind::TunnelEnd, b"\0\0\0\x07\0"),
        (FrameKind::Hello, b""),
        (FrameKind::Setup, b"\0\0\0\x01\0\0\0\x01w\0\0\0\0\0\0\0\0"),
        (FrameKind::Setup, b"\0\0\0\0\0\0\0\x01\0\0\0\x02/t\0\0\0\0"),
        (FrameKind::Setup, b"\0\0\0\x01\0\0\0\x02/w\0\0\0\0\0\0\0\x01\xff"),
        (FrameKind::Setup, b"\xff\xff\xff\xff\0\0\0\x02/w\0\0\0\0\0\0\0\0"),
        (FrameKind::Kill, b"\0\0\0\x07\x0be1"),
        (FrameKind::Killed, b"\0\0\0\x07\x02"),
        (FrameKind::Retire, b"\0"),
        (FrameKind::Busy, b"\0"),
        (FrameKind::Listen, b"\0\0"),
        (FrameKind::Listen, b"\x01\xbb\0"),
        (FrameKind::Listen, &[1; 2 * 129]),
        (FrameKind::Listening, b"\xff"),
        (FrameKind::NetOpen, b"\0\0\0\x07\x7f\x40\0\x01\x01\xbb\x7f\0\0\x01\x01"),
        (FrameKind::NetData, b"\0\0\0\x07"),
        (FrameKind::NetEnd, b"\0\0\0\x07\0"),
        (FrameKind::NetCredit, b"\0\0\0\x07\0\0\x01"),
        (FrameKind::NetQuery, &[0; 6 + 4097]),
        (FrameKind::NetAnswer, &[0; 5]),
        (FrameKind::FindCaller, b"\0\0\0\x07\x02\x01\xbb\0"),
        (FrameKind::FindCaller, b"\0\0\0\x07\x01\0\0\0"),
        (FrameKind::FindCaller, b"\0\0\0\x07\x01\x01\xbb\x02"),
        (FrameKind::FindCaller, b"\0\0\0\x07\x01\x01\xbb\0\xff"),
        (FrameKind::Caller, b"\0\0\x07"),
        (FrameKind::Caller, b"\0\0\0\x07\x0b"),
        (FrameKind::Refused, b"\xff"),
        (FrameKind::Watch, b"\0\x14"),
        (FrameKind::Watch, b"\0\x14\0\0\0"),
        (FrameKind::Listeners, b""),
        (FrameKind::Listeners, b"\x03"),
        (FrameKind::Listeners, b"\0\0\0\0\0\0\x07"),
        (FrameKind::Listeners, b"\0\x0b\xb8\0\0\0"),
        (FrameKind::Listeners, &[1; 1 + 6 * 257]),
        (FrameKind::Bind, b"\0\0\0\x07\0\0"),
        (FrameKind::Bind, b"\0\0\0\x07\0\x50\0"),
        (FrameKind::Connect, b"\0\0\0\x07\0\0\0"),
        (FrameKind::Connect, b"\0\0\0\x07\x02\0\x50"),
        (FrameKind::Opened, b"\0\0\0\x07\x04"),
        (FrameKind::OpenFile, b"\0\0\0\x07\x02\0/a"),
        (FrameKind::OpenFile, b"\0\0\0\x07\0\x01\0\0\0\x09/a"),
        (FrameKind::File, b"\0\0\0\x07\0\0\0"),
    ];
    for (kind, payload) in rows {
        check_malformed(kind, payload);
    }
}

/// Tests `Start` up to its invocation, which has its own tests.
#[test]
fn invalid_starts() {
    let mut encoded = Vec::new();
    encode_invocation(&request(), &mut encoded);
    let rows: [&[u8]; 8] = [
        b"\0\0\0\x07\x02\0\0\0\x02e1\0\0\0",
        b"\0\0\0\x07\0\0\0\0\x02e/\0\0\0",
        b"\0\0\0\x07\0\xff\xff\xff\xffe1\0\0\0",
        b"\0\0\0\x07\0\0\0\0\x02e1\x02\0\0",
        b"\0\0\0\x07\0\0\0\0\x02e1\x01\0\0\0\x04make\0\0",
        b"\0\0\0\x07\0\0\0\0\x02e1\0\x01\0\0\0\x01\0\0\0\x02A\0\0",
        b"\0\0\0\x07\0\0\0\0\x02e1\0\x01\xff\xff\xff\xff\0",
        b"\0\0\0\x07\0\0\0\0\x02e1\0\0\x02",
    ];
    for head in rows {
        check_malformed(FrameKind::Start, &[head, &encoded].concat());
    }
    let head = &b"\0\0\0\x07\0\0\0\0\x02e1\0\0\0"[..];
    for len in 0..encoded.len() {
        check_malformed(FrameKind::Start, &[head, &encoded[..len]].concat());
    }
    check_malformed(FrameKind::Start, &[head, &encoded, b"x"].concat());
}

#[track_caller]
fn check_malformed(kind: FrameKind, payload: &[u8]) {
    let mut wire = Vec::new();
    encode_frame_head(&mut wire, kind, payload.len());
    wire.extend_from_slice(payload);
    check(&wire, Err(FrameError::Malformed(kind)));
}

#[test]
fn empty_data_is_not_a_frame() {
    let mut wire = Vec::new();
    Frame::Data { stream: Stream::Stdout, data: b"" }.encode(&mut wire);
    Frame::Tunnel { serial: 7, data: b"" }.encode(&mut wire);
    assert_eq!(wire, b"");
}

#[test]
fn long_messages_are_truncated_between_characters() {
    let message = format!("x{}", "\u{e9}".repeat(MAX_PAYLOAD));
    let mut wire = Vec::new();
    let error = StartError { cause: StartErrorCause::Failed, message };
    Frame::StartError { serial: 7, error }.encode(&mut wire);
    let mut reader = FrameReader::new();
    reader.receive(&wire);
    let Ok(Some(Frame::StartError { error, .. })) = reader.next_frame() else {
        panic!("{:?}", wire.get(..16));
    };
    assert_eq!(error.message.len(), MAX_PAYLOAD - 17);
}
