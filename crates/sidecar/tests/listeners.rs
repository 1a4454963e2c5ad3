//! A runner that does not pass the requested listeners is refused (`spec/network.md#passed-listeners`).

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use aifo_process::{SendMode, send_with_fds};
use aifo_sidecar::{Runner, SidecarError, StackListeners};
use aifo_types::Kind;
use aifo_wire::{FRAMES_VERSION, Frame, FrameReader, Setup};

/// Connects to a runner that replies to `Listen` with this frame and these descriptors.
fn connect(reply: Frame<'static>, fds: Vec<OwnedFd>) -> Result<StackListeners, SidecarError> {
    let (own, peer) = UnixStream::pair().expect("a pair of sockets");
    let runner = thread::spawn(move || run(peer, &reply, &fds));
    let kind = Kind::parse("rust").expect("a kind");
    let setup = Setup { workspace: vec![b"/w".to_vec()], tmp: Vec::new(), kind: kind.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let connected = runtime.expect("a runtime").block_on(async {
        Runner::connect_listening(kind, OwnedFd::from(own), &setup, &[443])
            .await
            .map(|(_, listeners)| listeners)
    });
    runner.join().expect("the runner ends with its connection");
    connected
}

fn run(mut control: UnixStream, reply: &Frame<'_>, fds: &[OwnedFd]) {
    let encoded = |frame: &Frame<'_>| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    };
    control.write_all(&encoded(&Frame::Hello { version: FRAMES_VERSION })).expect("sent");
    let (mut frames, mut bytes) = (FrameReader::new(), [0; 4096]);
    while let Ok(count @ 1..) = control.read(&mut bytes) {
        frames.receive(&bytes[..count]);
        while let Some(frame) = frames.next_frame().expect("valid frames") {
            if let Frame::Listen { ports } = frame {
                assert_eq!(ports, [443]);
                let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                let bytes = encoded(reply);
                let sent = send_with_fds(control.as_fd(), &bytes, &fds, SendMode::Blocking);
                assert_eq!(sent, Ok(bytes.len()));
            }
        }
    }
}

fn udp() -> OwnedFd {
    UdpSocket::bind("127.0.0.1:0").expect("a free port").into()
}

fn tcp() -> OwnedFd {
    TcpListener::bind("127.0.0.1:0").expect("a free port").into()
}

fn bound() -> Frame<'static> {
    Frame::Listening { error: String::new() }
}

#[test]
fn wrong_descriptors_are_refused() {
    let rows = [
        (vec![udp(), tcp()], "2 descriptors came, expected 3"),
        (vec![tcp(), tcp(), tcp()], "the descriptor for 127.0.0.1:53: it is no UDP socket"),
        (vec![udp(), tcp(), tcp()], "the descriptor for 127.0.0.1:53: it is bound to 127.0.0.1:"),
        (vec![udp(), tcp(), tcp(), tcp()], "Protocol error"),
    ];
    for (fds, expected) in rows {
        let count = fds.len();
        let Err(SidecarError::Listeners { reason, .. }) = connect(bound(), fds) else {
            panic!("{count} descriptors passed");
        };
        assert!(reason.starts_with(expected), "{reason}");
    }
}

#[test]
fn the_runners_error_is_reported() {
    let error = "cannot listen on port 443: Address already in use".to_owned();
    let message = connect(Frame::Listening { error }, Vec::new()).unwrap_err().to_string();
    let expected = "the rust sidecar has no network by name: cannot listen on port 443: Address \
                    already in use\nhint: choose another network with --net";
    assert_eq!(message, expected);
}

#[test]
fn another_frame_breaks_the_protocol() {
    let error = connect(Frame::Busy, Vec::new()).unwrap_err();
    assert!(matches!(error, SidecarError::Protocol { .. }), "{error}");
}
