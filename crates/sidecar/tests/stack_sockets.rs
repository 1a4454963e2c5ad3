//! A runner that passes another socket than the requested one is refused (`spec/network.md#mirrors`).

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use aifo_process::{SendMode, send_with_fds};
use aifo_sidecar::{Runner, SocketError};
use aifo_types::Kind;
use aifo_wire::{FRAMES_VERSION, Frame, FrameReader, Setup, SocketResult};

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bytes
}

/// A runner that replies to each request for a socket with this result and these descriptors.
fn run(mut control: UnixStream, result: SocketResult, fds: &[OwnedFd]) {
    let send = |control: &UnixStream, frame: &Frame<'_>, fds: &[OwnedFd]| {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        // The launcher may have closed the connection.
        let _ = send_with_fds(control.as_fd(), &encoded(frame), &fds, SendMode::Blocking);
    };
    send(&control, &Frame::Hello { version: FRAMES_VERSION }, &[]);
    let (mut frames, mut bytes) = (FrameReader::new(), [0; 4096]);
    while let Ok(count @ 1..) = control.read(&mut bytes) {
        frames.receive(&bytes[..count]);
        while let Some(frame) = frames.next_frame().expect("valid frames") {
            if let Frame::Bind { serial, .. } | Frame::Connect { serial, .. } = frame {
                send(&control, &Frame::Opened { serial, result, id: 0 }, fds);
            }
        }
    }
}

/// The results of a bind and a connect to `port`.
fn open(port: u16, result: SocketResult, fds: &[&dyn AsFd]) -> [Result<(), SocketError>; 2] {
    let (own, peer) = UnixStream::pair().expect("a pair of sockets");
    let fds: Vec<OwnedFd> =
        fds.iter().map(|fd| fd.as_fd().try_clone_to_owned().expect("a copy")).collect();
    let runner = thread::spawn(move || run(peer, result, &fds));
    let kind = Kind::parse("rust").expect("a kind");
    let setup = Setup { workspace: vec![b"/w".to_vec()], tmp: Vec::new(), kind: kind.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let results = runtime.expect("a runtime").block_on(async {
        let connected = Runner::connect_joined(kind, OwnedFd::from(own), &setup).await;
        let connected = connected.expect("it says hello");
        let sockets = connected.stack_sockets();
        [sockets.bind(port).await.map(drop), sockets.connect(port).await.map(drop)]
    });
    runner.join().expect("the runner ends with its connection");
    results
}

#[test]
fn the_requested_sockets_pass() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let [bound, _] = open(port, SocketResult::Passed, &[&listener]);
    assert_eq!(bound, Ok(()));
    let connection = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let [_, connected] = open(port, SocketResult::Passed, &[&connection]);
    assert_eq!(connected, Ok(()));
}

#[test]
fn wrong_sockets_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let connection = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let (accepted, _) = listener.accept().expect("a connection");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let (unix, _peer) = UnixStream::pair().expect("a pair");
    let file = std::fs::File::open("/dev/null").expect("it exists");
    let other = if port == u16::MAX { port - 1 } else { port + 1 };
    let rows: [(u16, &dyn AsFd); 7] = [
        (other, &listener),
        (other, &connection),
        // Its peer has another port.
        (port, &accepted),
        (port, &udp),
        (port, &unix),
        (port, &file),
        // Neither of both.
        (other, &accepted),
    ];
    for (at, (port, fd)) in rows.into_iter().enumerate() {
        for result in open(port, SocketResult::Passed, &[fd]) {
            assert!(matches!(result, Err(SocketError::Failed(_))), "{at}: {result:?}");
        }
    }
}

#[test]
fn no_socket_and_too_many_are_errors() {
    assert_eq!(open(1, SocketResult::InUse, &[])[0], Err(SocketError::InUse));
    assert_eq!(open(1, SocketResult::Refused, &[])[1], Err(SocketError::Refused));
    for result in open(1, SocketResult::Passed, &[]) {
        assert!(matches!(result, Err(SocketError::Failed(_))), "{result:?}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    for result in open(1, SocketResult::Passed, &[&listener, &listener]) {
        // The connection to the runner ends.
        assert!(matches!(result, Err(SocketError::Failed(_))), "{result:?}");
    }
}
