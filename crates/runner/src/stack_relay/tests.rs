use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use aifo_wire::{FrameReader, Loopback, SocketResult, WINDOW};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Linger;

use super::*;
use crate::control::ControlTransport;

/// A relay, and the proxy's end of its control connection.
struct Rig {
    relay: StackRelay,
    poller: Poller,
    control: ControlConnection,
    output: PipeReader,
    frames: FrameReader,
    /// The port of the only listener.
    port: u16,
    _input: PipeWriter,
}

impl Rig {
    fn new() -> Self {
        let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ((input, to_runner), (output, from_runner)) = (pipe().unwrap(), pipe().unwrap());
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let transport =
            ControlTransport::Stream { input: input.into(), output: from_runner.into() };
        let mut rig = Rig {
            relay: StackRelay::of(Some(dns), vec![listener]).unwrap(),
            poller: Poller::new().unwrap(),
            control: ControlConnection::new(transport).unwrap(),
            output,
            frames: FrameReader::new(),
            port,
            _input: to_runner,
        };
        rig.relay.on_room(&rig.poller, &mut rig.control).unwrap();
        rig
    }

    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    /// Serves events that come within a moment.
    fn turn(&mut self) {
        let mut ready = Vec::new();
        self.poller.wait(Some(Instant::now() + Duration::from_millis(5)), &mut ready).unwrap();
        for event in ready {
            let EventSource::Stack(fd) = event.source else { panic!("{event:?}") };
            self.relay.on_ready(event, fd, &self.poller, &mut self.control).unwrap();
        }
        self.control.flush();
        if self.control.has_room_again() {
            self.relay.on_room(&self.poller, &mut self.control).unwrap();
        }
    }

    /// Serves events until the proxy has a frame; returns its debug text.
    fn next(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Some(Frame::Net(frame)) = self.frames.next_frame().unwrap() {
                return format!("{frame:?}");
            }
            let mut bytes = [0; 4096];
            match self.output.read(&mut bytes) {
                Ok(count) => self.frames.receive(&bytes[..count]),
                Err(_) => self.turn(),
            }
        }
        panic!("no frame came");
    }

    fn receive(&mut self, frame: NetFrame<'_>) -> Result<(), NetFlowError> {
        self.relay.receive(frame, &self.poller, &mut self.control).unwrap()
    }
}

#[test]
fn a_client_is_relayed_with_its_address_and_ends() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    let own = client.local_addr().unwrap();
    let expected =
        format!("Open {{ connection: 1, dialled: 127.0.0.1:{}, peer: {own} }}", rig.port);
    assert_eq!(rig.next(), expected);
    client.write_all(b"hi").unwrap();
    assert_eq!(rig.next(), "Data { connection: 1, data: [104, 105] }");
    assert_eq!(rig.receive(NetFrame::Data { connection: 1, data: b"bye" }), Ok(()));
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rig.next(), "End { connection: 1 }");
    assert_eq!(rig.receive(NetFrame::End { connection: 1 }), Ok(()));
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "bye");
    assert!(rig.relay.connections.is_empty());
    // The proxy may have sent these before it had the end.
    assert_eq!(rig.receive(NetFrame::Reset { connection: 1 }), Ok(()));
    assert_eq!(rig.receive(NetFrame::Credit { connection: 1, bytes: 1 }), Ok(()));
    assert_eq!(rig.receive(NetFrame::Data { connection: 1, data: b"x" }), Err(NetFlowError));
}

#[test]
fn resets_pass_both_ways() {
    let mut rig = Rig::new();
    let mut client = rig.client();
    rig.next();
    assert_eq!(rig.receive(NetFrame::Reset { connection: 1 }), Ok(()));
    assert_eq!(rig.next(), "Reset { connection: 1 }", "the last frame of this side");
    let error = client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    let client = rig.client();
    rig.next();
    setsockopt(&client, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
    drop(client);
    assert_eq!(rig.next(), "Reset { connection: 2 }");
    let data = NetFrame::Data { connection: 2, data: b"in flight" };
    assert_eq!(rig.receive(data), Ok(()));
    assert_eq!(rig.receive(NetFrame::End { connection: 2 }), Ok(()));
    assert!(rig.relay.connections.is_empty());
}

#[test]
fn frames_that_break_the_rules_are_errors() {
    let mut rig = Rig::new();
    let peer = SocketAddrV4::new([127, 0, 0, 1].into(), 1);
    for frame in [
        NetFrame::Open { connection: 1, dialled: peer, peer },
        NetFrame::Query { peer, data: b"?" },
        NetFrame::Data { connection: 1, data: b"x" },
        NetFrame::End { connection: 1 },
        NetFrame::Reset { connection: 1 },
        NetFrame::Credit { connection: 1, bytes: 1 },
    ] {
        assert_eq!(rig.receive(frame), Err(NetFlowError), "{frame:?}");
    }
    let _client = rig.client();
    rig.next();
    assert_eq!(rig.receive(NetFrame::Credit { connection: 1, bytes: 1 }), Err(NetFlowError));
    let long = vec![0; WINDOW + 1];
    assert_eq!(rig.receive(NetFrame::Data { connection: 1, data: &long }), Err(NetFlowError));
}

/// Neither a client that is not read from, nor a proxy that does not read, makes the runner buffer more.
#[test]
fn what_is_not_read_is_not_buffered() {
    let mut rig = Rig::new();
    let mut clients: Vec<_> = (0..20).map(|_| rig.client()).collect();
    for client in &mut clients {
        client.set_nonblocking(true).unwrap();
        let _ = client.write(&vec![7; 1 << 20]);
    }
    for _ in 0..200 {
        rig.turn();
    }
    let unread = rig.control.writer().borrow().pending_len();
    assert!(unread < 2 * READ_SIZE, "{unread}");
    // The proxy reads again: all connections continue.
    let mut from = std::collections::BTreeSet::new();
    while from.len() < clients.len() {
        let frame = rig.next();
        if frame.starts_with("Data") {
            from.insert(frame.split(&[' ', ','][..]).nth(3).map(str::to_owned));
        }
    }
}

impl Rig {
    /// Serves events until the reply to a request comes.
    fn reply(&mut self) -> (u32, SocketResult, u32) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Some(Frame::Opened { serial, result, id }) = self.frames.next_frame().unwrap() {
                return (serial, result, id);
            }
            let mut bytes = [0; 4096];
            match self.output.read(&mut bytes) {
                Ok(count) => self.frames.receive(&bytes[..count]),
                Err(_) => self.turn(),
            }
        }
        panic!("no reply came");
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_mirror_is_relayed_until_it_is_unbound() {
    let mut rig = Rig::new();
    let port = free_port();
    assert_ne!(rig.relay.bind_mirror(port, &rig.poller), Ok(0));
    assert_eq!(rig.relay.bind_mirror(port, &rig.poller), Err(SocketResult::InUse));
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let peer = client.local_addr().unwrap();
    let open = format!("Open {{ connection: 1, dialled: 127.0.0.1:{port}, peer: {peer} }}");
    assert_eq!(rig.next(), open);
    rig.relay.unbind_mirror(port);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "its listener is closed");
    // The connection goes on.
    client.write_all(b"hi").unwrap();
    assert_eq!(rig.next(), "Data { connection: 1, data: [104, 105] }");
}

#[test]
fn a_requested_connection_has_the_next_number() {
    let mut rig = Rig::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let _other = rig.client();
    assert!(rig.next().starts_with("Open { connection: 1,"));
    rig.relay.connect(7, (Loopback::V4, port), &rig.poller).unwrap();
    assert_eq!(rig.reply(), (7, SocketResult::Passed, 2));
    let mut accepted = server.accept().unwrap().0;
    accepted.write_all(b"hi").unwrap();
    assert_eq!(rig.next(), "Data { connection: 2, data: [104, 105] }");
    rig.receive(NetFrame::End { connection: 2 }).unwrap();
    assert_eq!(accepted.read(&mut [0; 1]).unwrap(), 0);

    match rig.relay.connect(8, (Loopback::V4, free_port()), &rig.poller) {
        Ok(()) => assert_eq!(rig.reply(), (8, SocketResult::Refused, 0)),
        Err(result) => assert_eq!(result, SocketResult::Refused),
    }
}
