//! Frames of a stack's connections, also of a runner that breaks their rules
//! (`spec/runner.md#connections-of-a-stack`).

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::SocketAddrV4;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use aifo_sidecar::{RelayedStack, Runner, StackConnection, StackEvent};
use aifo_types::Kind;
use aifo_wire::{
    FRAMES_VERSION, Frame, FrameReader, MAX_NET_CONNECTIONS, NetFrame, Setup, SocketResult, WINDOW,
};

/// The runner's side of its pipes.
struct FakeRunner {
    input: PipeReader,
    output: PipeWriter,
    frames: FrameReader,
}

const DIALLED: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(127, 64, 0, 1), 443);
const PEER: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 5000);

impl FakeRunner {
    fn send(&mut self, frame: Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        // The other side may have closed.
        let _ = self.output.write_all(&bytes);
    }

    fn net(&mut self, frames: &[NetFrame<'_>]) {
        for frame in frames {
            self.send(Frame::Net(*frame));
        }
    }

    /// Returns the next frame's debug text; `None` at the end.
    fn next(&mut self) -> Option<String> {
        loop {
            if let Some(frame) = self.frames.next_frame().expect("valid frames") {
                return Some(format!("{frame:?}"));
            }
            let mut bytes = [0; 4096];
            match self.input.read(&mut bytes).expect("a pipe") {
                0 => return None,
                count => self.frames.receive(&bytes[..count]),
            }
        }
    }
}

/// Connects to a runner that has bound its listeners.
async fn connect() -> (Runner, RelayedStack, FakeRunner) {
    let ((input, to_runner), (from_runner, output)) = (pipe().unwrap(), pipe().unwrap());
    let mut runner = FakeRunner { input, output, frames: FrameReader::new() };
    runner.send(Frame::Hello { version: FRAMES_VERSION });
    runner.send(Frame::Listening { error: String::new() });
    let kind = Kind::parse("rust").expect("a kind");
    let setup = Setup { workspace: vec![b"/w".to_vec()], tmp: Vec::new(), kind: kind.to_string() };
    let (from_runner, to_runner) = (from_runner.into(), to_runner.into());
    let connected =
        Runner::connect_stream_listening(kind, from_runner, to_runner, &setup, &[443]).await;
    let (connected, stack) = connected.expect("connected");
    assert!(runner.next().unwrap().starts_with("Setup"));
    assert_eq!(runner.next().unwrap(), "Listen { ports: [443] }");
    (connected, stack, runner)
}

fn open(connection: u32) -> NetFrame<'static> {
    NetFrame::Open { connection, dialled: DIALLED, peer: PEER }
}

async fn accept(stack: &mut RelayedStack) -> StackConnection {
    match stack.next().await {
        Some(StackEvent::Connected(connection)) => connection,
        other => panic!("{other:?}"),
    }
}

fn socket(connection: StackConnection) -> tokio::net::UnixStream {
    tokio::net::UnixStream::from_std(UnixStream::from(connection.socket)).unwrap()
}

/// Waits for the runner's next frame on another thread.
async fn next(mut runner: FakeRunner) -> (FakeRunner, String) {
    let waiting = tokio::task::spawn_blocking(move || {
        let frame = runner.next().expect("a frame");
        (runner, frame)
    });
    waiting.await.unwrap()
}

#[tokio::test]
async fn bytes_ends_and_resets_pass_both_ways() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (_runner, mut stack, mut runner) = connect().await;
    runner.net(&[
        open(1),
        NetFrame::Data { connection: 1, data: b"hello" },
        NetFrame::End { connection: 1 },
    ]);
    let accepted = accept(&mut stack).await;
    assert_eq!((accepted.dialled, accepted.peer), (DIALLED, PEER));
    let mut server = socket(accepted);
    let mut text = String::new();
    server.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");
    server.write_all(b"bye").await.unwrap();
    drop(server);
    let (runner, frame) = next(runner).await;
    assert_eq!(frame, "Net(Data { connection: 1, data: [98, 121, 101] })");
    let (mut runner, frame) = next(runner).await;
    assert_eq!(frame, "Net(End { connection: 1 })");

    runner.net(&[open(2)]);
    let accepted = accept(&mut stack).await;
    accepted.reset.store(true, Ordering::Relaxed);
    drop(accepted);
    assert_eq!(next(runner).await.1, "Net(Reset { connection: 2 })");
}

/// Ends the runner connection.
#[tokio::test]
async fn frames_that_break_the_rules_end_the_connection() {
    let data = NetFrame::Data { connection: 1, data: b"x" };
    // More than the window and the socket, which nothing reads, hold together.
    let long = vec![0; 8 * WINDOW];
    let too_many: Vec<_> = (1..=MAX_NET_CONNECTIONS as u32 + 1).map(open).collect();
    let end = NetFrame::End { connection: 1 };
    let reset = NetFrame::Reset { connection: 1 };
    let rows: [(&str, &[NetFrame<'_>]); 12] = [
        ("bytes of no connection", &[data]),
        ("an end of no connection", &[end]),
        ("a reset of no connection", &[reset]),
        ("credit of no connection", &[NetFrame::Credit { connection: 1, bytes: 1 }]),
        ("a number that is in use", &[open(1), open(1)]),
        ("a number that was used", &[open(1), reset, open(1)]),
        ("bytes after the end", &[open(1), end, data]),
        ("a second end", &[open(1), end, end]),
        ("bytes after a reset", &[open(1), reset, data]),
        ("more than the credit", &[open(1), NetFrame::Data { connection: 1, data: &long }]),
        ("credit for nothing", &[open(1), NetFrame::Credit { connection: 1, bytes: 1 }]),
        ("too many connections", &too_many),
    ];
    for (name, frames) in rows {
        let (connected, mut stack, mut runner) = connect().await;
        // The pipe takes less than the longest row.
        let frames: Vec<_> = frames.iter().map(|frame| frame.detach()).collect();
        let sending = std::thread::spawn(move || {
            for (frame, data) in &frames {
                runner.net(&[frame.with_data(data)]);
            }
            runner
        });
        let lost = tokio::time::timeout(std::time::Duration::from_secs(20), connected.lost());
        lost.await.unwrap_or_else(|_| panic!("{name} passed"));
        while stack.next().await.is_some() {}
        // Not joined, as the proxy reads no more. The runner's pipes are open until here.
        drop(sending);
    }
}

/// The runner may send these before it has received the proxy's last frame.
#[tokio::test]
async fn late_resets_and_credit_are_ignored() {
    let (connected, mut stack, mut runner) = connect().await;
    let reset = NetFrame::Reset { connection: 1 };
    runner.net(&[open(1), reset, reset, NetFrame::Credit { connection: 1, bytes: 9 }, open(2)]);
    accept(&mut stack).await;
    accept(&mut stack).await;
    assert!(!connected.is_lost());
}

/// A flood of datagrams is dropped while the stack's server takes none.
#[tokio::test]
async fn queries_are_bounded() {
    let (connected, mut stack, mut runner) = connect().await;
    let sending = std::thread::spawn(move || {
        for _ in 0..10_000 {
            runner.net(&[NetFrame::Query { peer: PEER, data: b"?" }]);
        }
        // Reset, as its event has no place either: it shows that all frames were read.
        runner.net(&[open(1)]);
        runner
    });
    let runner = tokio::task::spawn_blocking(move || sending.join().unwrap()).await.unwrap();
    let (runner, frame) = next(runner).await;
    assert_eq!(frame, "Net(Reset { connection: 1 })");
    let Some(StackEvent::Query { peer, data }) = stack.next().await else { panic!("a query") };
    assert_eq!((peer, data.as_slice()), (PEER, &b"?"[..]));
    stack.answer(PEER, b"!");
    assert!(!connected.is_lost());
    drop(runner);
}

/// A mirror gets the connections to its port at 127.0.0.1 only, until it is dropped.
#[tokio::test]
async fn a_mirror_has_the_connections_to_its_port() {
    let (connected, mut stack, runner) = connect().await;
    let sockets = connected.stack_sockets();
    let binding = tokio::spawn(async move { sockets.bind(3000).await });
    let (mut runner, frame) = next(runner).await;
    assert_eq!(frame, "Bind { serial: 1, port: 3000 }");
    runner.send(Frame::Opened { serial: 1, result: SocketResult::Passed, id: 77 });
    let at = |ip: [u8; 4], connection| NetFrame::Open {
        connection,
        dialled: SocketAddrV4::new(ip.into(), 3000),
        peer: PEER,
    };
    runner.net(&[at([127, 0, 0, 1], 1), at([127, 0, 0, 2], 2)]);
    let mut listener = binding.await.unwrap().expect("bound");
    assert_eq!(listener.inode(), 77);
    let accepted = listener.accept().await.expect("a connection");
    assert_eq!(accepted.dialled.expect("known").port(), 3000);
    // The other one is for the stack's server.
    let other = accept(&mut stack).await;
    assert_eq!(*other.dialled.ip(), std::net::Ipv4Addr::new(127, 0, 0, 2));
    drop(listener);
    let (mut runner, frame) = next(runner).await;
    assert_eq!(frame, "Unbind { port: 3000 }");
    // The connection is reset as the server of the mirror does.
    accepted.reset_on_close();
    drop(accepted);
    let (again, frame) = next(runner).await;
    assert_eq!(frame, "Net(Reset { connection: 1 })");
    runner = again;
    runner.net(&[at([127, 0, 0, 1], 3)]);
    assert_eq!(accept(&mut stack).await.dialled.port(), 3000);
}

#[tokio::test]
async fn a_requested_connection_is_relayed() {
    let (connected, _stack, runner) = connect().await;
    let sockets = connected.stack_sockets();
    let connecting = tokio::spawn(async move { sockets.connect(3000).await });
    let (mut runner, frame) = next(runner).await;
    assert_eq!(frame, "Connect { serial: 1, address: V4, port: 3000 }");
    runner.send(Frame::Opened { serial: 1, result: SocketResult::Refused, id: 0 });
    let (mut runner, frame) = next(runner).await;
    assert_eq!(frame, "Connect { serial: 2, address: V6, port: 3000 }");
    runner.send(Frame::Opened { serial: 2, result: SocketResult::Passed, id: 1 });
    // Right behind the reply.
    runner.net(&[NetFrame::Data { connection: 1, data: b"hello" }]);
    let mut stream = connecting.await.unwrap().expect("connected").stream;
    let mut bytes = [0; 5];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello");
}

/// A runner that opens what was not requested, or with a number that it has used, is lost.
#[tokio::test]
async fn replies_that_break_the_rules_end_the_connection() {
    let opened = |serial, id| Frame::Opened { serial, result: SocketResult::Passed, id };
    let rows = [vec![opened(1, 1)], vec![Frame::Net(open(1)), opened(2, 1)]];
    for (at, frames) in rows.into_iter().enumerate() {
        let (connected, _stack, mut runner) = connect().await;
        if at == 1 {
            let sockets = connected.stack_sockets();
            tokio::spawn(async move { sockets.connect(3000).await.map(drop) });
            let (refusing, frame) = next(runner).await;
            assert!(frame.starts_with("Connect { serial: 1,"), "{frame}");
            runner = refusing;
            runner.send(Frame::Opened { serial: 1, result: SocketResult::Refused, id: 0 });
            let (waiting, frame) = next(runner).await;
            assert!(frame.starts_with("Connect { serial: 2,"), "{frame}");
            runner = waiting;
        }
        for frame in frames {
            runner.send(frame);
        }
        connected.lost().await;
        assert!(connected.is_lost(), "row {at}");
    }
}
