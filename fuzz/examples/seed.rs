//! Writes the seeds of every target to `corpus/TARGET/NAME`, from the golden transcripts and the
//! tables of `spec/decide.md`.

#[path = "../../crates/wire/tests/transcript/mod.rs"]
mod transcript;

use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use aifo_types::{
    Ending, ExecId, ExecRequest, Inherited, Signal, SoftLimit, Stdio, TerminalSettings, ToolName,
    WindowSize,
};
use aifo_wire::{
    CallNote, CancelCause, ClientHandover, ClientTransport, Delivery, Environment, Exit, FileAccess, Program,
    FRAMES_VERSION, Frame, Interrupt, Limits, Listener, ListenerReport, Loopback, NetFrame,
    RequestEvent, RequestReader, ResourceUsage, Setup, SidecarLimit, SocketResult, Start,
    StartError, StartErrorCause, Stream, encode_invocation, encode_upgrade_head,
};
use transcript::Transcript;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for Transcript { name, sent, received } in
        transcript::read_all(&root.join("../tests/transcripts"))
    {
        write(root, "head", &format!("{name}.request"), &whole(&sent))?;
        write(root, "head", &format!("{name}.answer"), &whole(&received))?;
        for (side, message) in [("request", &sent), ("answer", &received)] {
            if let Some(body) = chunked_body(message) {
                write(root, "chunked", &format!("{name}.{side}"), &whole(body))?;
            }
        }
        if let Some(form) = decoded_body(&sent) {
            write(root, "form", &name, &form)?;
        }
    }
    for frame in frames() {
        let mut wire = Vec::new();
        frame.encode(&mut wire);
        write(root, "frames", &format!("{:?}", frame.kind()), &whole(&wire))?;
    }
    let mut answer = Vec::new();
    encode_upgrade_head(&mut answer, None);
    let usage = ResourceUsage::default();
    let exit = Exit { ending: Ending::Exited(0), cancelled: None, note: None, taken: 0, usage };
    let stdio = [Stdio::Null, Stdio::Passed, Stdio::Same];
    Frame::Started { serial: 1, pid: 2, stdio }.encode(&mut answer);
    Frame::Exit { serial: 1, exit }.encode(&mut answer);
    write(root, "early_start", "answer", &answer)?;
    write(root, "early_start", "stack", &[2, 90, 91, 0, 80, 0, 6, 1, 31, 70, 0, 0])?;
    for (name, request) in [("plain", plain()), ("full", full())] {
        let mut body = Vec::new();
        encode_invocation(&request, &mut body);
        write(root, "invocation", name, &body)?;
    }
    for target in ["acp_lines", "acp_messages", "acp_client"] {
        write(root, target, "agent", &whole(AGENT))?;
    }
    write(root, "acp_relay", "both", &whole(BOTH))?;
    for (name, path) in [("path", "/w/a/../b"), ("uri", "file:///tmp/a%20b?x#L3")] {
        write(root, "acp_path_map", name, path.as_bytes())?;
    }
    write(root, "acp_images", "image", b"![a](data:image/png;base64,aGVsbG8=) b")?;
    for (number, path) in PATHS.iter().enumerate() {
        for how in [0, 2] {
            let seed = [&[how], path.as_bytes()].concat();
            write(root, "acp_paths", &format!("{number}.{how}"), &seed)?;
        }
    }
    write(root, "egress_dns", "a", &whole(DNS_QUERY))?;
    write(root, "egress_dns", "tcp", &[&[0, 0, DNS_QUERY.len() as u8], DNS_QUERY].concat())?;
    write(root, "egress_hello", "one", &whole(CLIENT_HELLO))?;
    for (name, request) in HTTP_REQUESTS {
        write(root, "egress_http", name, &whole(request.as_bytes()))?;
    }
    for (number, call) in calls(&root.join("../spec/decide.md"))?.iter().enumerate() {
        write(root, "decide", &number.to_string(), call)?;
    }
    Ok(())
}

fn write(root: &Path, target: &str, name: &str, seed: &[u8]) -> io::Result<()> {
    let directory = root.join("corpus").join(target);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join(name), seed)
}

/// Returns an input that delivers these bytes whole.
fn whole(wire: &[u8]) -> Vec<u8> {
    [&[0], wire].concat()
}

/// Returns the encoded body of a chunked message.
fn chunked_body(message: &[u8]) -> Option<&[u8]> {
    let end = message.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let (head, body) = message.split_at(end);
    let chunked = String::from_utf8_lossy(head).contains("Transfer-Encoding: chunked");
    chunked.then_some(body)
}

/// Returns the decoded body of a request; `None` if the request is invalid.
fn decoded_body(request: &[u8]) -> Option<Vec<u8>> {
    let mut reader = RequestReader::new(Limits::default());
    reader.receive(request);
    reader.receive_eof();
    loop {
        match reader.next_event() {
            Ok(RequestEvent::Body(body)) => return Some(body),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// One frame of every kind.
fn frames() -> Vec<Frame<'static>> {
    let second = Duration::from_secs(1);
    let usage = ResourceUsage { wall: second, user: second, system: second, max_rss_kib: 1024 };
    let cancelled = Some(CancelCause::Timeout);
    let note = Some(CallNote::Limit(SidecarLimit::Memory));
    let workspace = vec![b"/workspace".to_vec(), b"/home/me/project".to_vec()];
    let tmp = vec![b"/tmp".to_vec()];
    let error = StartError { cause: StartErrorCause::NotFound, message: "none".to_owned() };
    let peer = SocketAddrV4::new([127, 64, 0, 1].into(), 443);
    vec![
        Frame::Start(Box::new(start())),
        Frame::Data { stream: Stream::Stdout, data: b"hello\n" },
        Frame::Closed { stream: Stream::Stdin },
        Frame::Credit { stream: Stream::Terminal, bytes: 131_072 },
        Frame::Cancel { serial: 7, cause: CancelCause::Disconnect, interrupt: Interrupt::Skip },
        Frame::Signal { number: 28 },
        Frame::Resize(WindowSize { rows: 24, columns: 80, x_pixels: 0, y_pixels: 0 }),
        Frame::Started { serial: 7, pid: 258, stdio: full().inherited.stdio },
        Frame::Exit {
            serial: 7,
            exit: Exit { ending: Ending::Signaled(9), cancelled, note, taken: 1, usage },
        },
        Frame::StartError { serial: 7, error },
        Frame::Stopped { signal: 20, resumed: 1 },
        Frame::Tunnel { serial: 7, data: b"\x03\0\0\0\x01\0" },
        Frame::TunnelEnd { serial: 7 },
        Frame::Left { serial: 7 },
        Frame::Hello { version: FRAMES_VERSION },
        Frame::Setup(Setup { workspace, tmp, kind: "rust".to_owned() }),
        Frame::Kill { serial: 7, signal: Signal::Term, id: id() },
        Frame::Killed { serial: 7, found: Delivery::NoSuchExec },
        Frame::Listen { ports: vec![80, 443] },
        Frame::Listening { error: "no".to_owned() },
        Frame::Net(NetFrame::Open { connection: 1, dialled: peer, peer }),
        Frame::Net(NetFrame::Data { connection: 1, data: b"hi" }),
        Frame::Net(NetFrame::Credit { connection: 1, bytes: 2 }),
        Frame::Net(NetFrame::Reset { connection: 1 }),
        Frame::Net(NetFrame::Query { peer, data: b"?" }),
        Frame::Watch { interval: 20, background: 200 },
        Frame::Listeners {
            report: ListenerReport::Complete,
            listeners: vec![Listener { port: 3000, inode: 7 }],
        },
        Frame::Bind { serial: 7, port: 3000 },
        Frame::Connect { serial: 7, address: Loopback::V6, port: 3000 },
        Frame::Opened { serial: 7, result: SocketResult::Passed, id: 3 },
        Frame::OpenFile {
            serial: 7,
            access: FileAccess::Write,
            user: Some(b"me:7".to_vec()),
            path: b"/a".to_vec(),
        },
        Frame::File { serial: 7, errno: 2 },
        Frame::Unbind { port: 3000 },
    ]
}

fn start() -> Start {
    let mut start = Start::new(full());
    start.set_serial(7);
    start.program = Program::File(b"/usr/bin/make".to_vec());
    start.user = Some(b"me:7".to_vec());
    start.environment = Environment::Only(vec![b"PATH".to_vec(), b"LC_*".to_vec()]);
    start.client = Some(ClientHandover {
        transport: ClientTransport::Passed,
        response_head: b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec(),
        received: Vec::new(),
    });
    start
}

fn plain() -> ExecRequest {
    ExecRequest::new(id(), ToolName::parse(b"make").expect("a tool name"))
}

fn full() -> ExecRequest {
    let inherited = Inherited {
        environment: vec![b"CI=1".to_vec()],
        umask: Some(0o22),
        nice: Some(0),
        limits: vec![SoftLimit { resource: 7, soft: 1024 }],
        ignored: 1 << 12,
        stdio: [Stdio::Terminal, Stdio::Relayed, Stdio::Same],
        terminal: Some(TerminalSettings::default()),
    };
    let (args, cwd) = (vec![Vec::new(), b"\xff".to_vec()], Some(b"/w".to_vec()));
    ExecRequest { args, cwd, inherited, ..plain() }
}

fn id() -> ExecId {
    ExecId::parse(b"e1").expect("an exec id")
}

/// Returns the calls in the page's tables: tool, directory and arguments, separated by NUL.
fn calls(page: &Path) -> io::Result<Vec<Vec<u8>>> {
    let page = fs::read_to_string(page)?;
    let calls = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let call = |(call, _): (&str, &str)| {
        let (cwd, call) = match call.strip_prefix("cd ").and_then(|rest| rest.split_once(" && ")) {
            Some((cwd, call)) => (cwd, call),
            None => ("/workspace", call),
        };
        let mut words: Vec<&str> = call.split(' ').map(|word| word.trim_matches('\'')).collect();
        words.insert(1, cwd);
        words.join("\0").into_bytes()
    };
    Ok(calls.map(call).collect())
}

/// Paths in the tree of `acp_paths`.
const PATHS: [&str; 9] = [
    "/ws/f",
    "/ws/a/new/f",
    "/ws/link/a/../f",
    "/ws/up/outside/secret",
    "/ws/a/out",
    "/ws/../ws/f",
    "/ws/dangling",
    "/ws/hard",
    "/ws-evil/f",
];

/// Valid and invalid messages of an agent.
const AGENT: &[u8] = br#"Loading...
{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}
{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"current_mode_update"}}}
{"id":"2","result":{"sessionId":"s"}}
{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}}}
{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress"}}}
{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"y","kind":"allow_once"}]}}
{"method":"$/cancel_request","params":{"requestId":7}}
{"id":8,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/x"}}
{"id":9,"method":"craft/drainMidTurnQueue"}
[{"id":3,"result":{"stopReason":"end_turn"}},17,{"method":"session/update"}]
"#;

/// Messages of an editor, marked by `>`, and of an agent.
const BOTH: &[u8] = br#">{"id":0,"method":"initialize","params":{"clientCapabilities":{"terminal":true}}}
{"id":1,"result":{"protocolVersion":1}}
>{"id":"n","method":"session/new","params":{"cwd":"/h/a"}}
{"id":"2","result":{"sessionId":"s"}}
>{"id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"resource_link","uri":"file:///h/a"}]}}
>{"id":"q","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","content":[{"type":"diff","path":"/workspace/a"}]}}}
{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"y"}]}}
{"id":8,"method":"fs/read_text_file","params":{"path":"/i/a"}}
{"id":9,"method":"terminal/create","params":{"cwd":"/i"}}
{"method":"$/cancel_request","params":{"requestId":9}}
>{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}
>{"method":"session/cancel","params":{"sessionId":"s"}}
{"id":3,"result":{"stopReason":"cancelled"}}
[{"id":4,"result":{"stopReason":"end_turn"}},17]
"#;

/// A query for the address of registry.example, with EDNS(0).
const DNS_QUERY: &[u8] = b"\x07\x07\x01\0\0\x01\0\0\0\0\0\x01\
    \x08registry\x07example\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";

/// A ClientHello with the server name a.example.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\0\x45\x01\0\0\x41\x03\x03\
    0123456789abcdef0123456789abcdef\0\0\x02\x13\x01\x01\0\
    \0\x14\0\0\0\x0e\0\x0c\0\0\x09a.example\x0a\x0a\0\0";

/// Requests to a.example.
const HTTP_REQUESTS: [(&str, &str); 3] = [
    ("get", "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n"),
    ("length", "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab"),
    (
        "chunked",
        "POST / HTTP/1.1\r\nHost: a.example:80\r\nTransfer-Encoding: chunked\r\n\r\n\
         2;x\r\nab\r\n0\r\nX: y\r\n\r\n",
    ),
];
