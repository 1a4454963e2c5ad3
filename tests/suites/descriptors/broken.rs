//! A protocol error ends the client's tool and affects no other client.

use std::fs;

use aifo_tests::frames::{Frame, MAX_PAYLOAD, WINDOW, credit, data, frame, kind, stream, string};
use aifo_tests::{
    Client, DEADLINE, ResourceUsage, Session, Sidecar, Stdio, eventually, eventually_within,
    fresh_id, tagged_processes,
};

use crate::descriptors::{session, sh};
use crate::malformed::random::Random;

/// The processes of a session and a running call, which must stay undisturbed.
struct Bystander<'a> {
    session: &'a Session,
    sidecars: Vec<Sidecar>,
    client: Client,
}

impl<'a> Bystander<'a> {
    #[track_caller]
    fn new(session: &'a Session) -> Self {
        let call = sh(session, "exec cat").stdin(Stdio::Relayed);
        let (client, _) = Client::start(session, call);
        Bystander { session, sidecars: session.sidecars(), client }
    }

    /// Checks that they still run and the call still carries bytes.
    #[track_caller]
    fn check(&mut self, after: &str) {
        let line = format!("after {after}\n").into_bytes();
        self.client.send(data(stream::STDIN, &line));
        assert_eq!(self.client.frame(), Some(Frame::Data(stream::STDOUT, line)));
        assert_eq!(self.session.sidecars(), self.sidecars, "after {after}");
    }
}

/// A `Start` as the proxy sends it, for a tool that would create a file.
fn start_frame(session: &Session) -> Vec<u8> {
    let invocation = sh(session, "touch started").stdout(Stdio::Null).stderr(Stdio::Null);
    let head = [&[0, 0, 0, 7, 0][..], &string("smuggled"), &[0, 0, 0]].concat();
    frame(kind::START, [head, invocation.encode()].concat())
}

#[test]
fn a_protocol_error_ends_the_tool() {
    let session = session();
    let mut bystander = Bystander::new(&session);
    let serial = [0, 0, 0, 1];
    let exit = [&serial[..], &[0; 43]].concat();
    let setup = [string("/"), string("/"), string("c-cpp")].concat();
    let cancel = [&serial[..], &[2, 0]].concat();
    let kill = [&serial[..], &[9], b"bystander"].concat();
    let oversize = u32::try_from(MAX_PAYLOAD + 1).unwrap().to_be_bytes();
    let rows = [
        ("more than a window on stdin", data(stream::STDIN, &vec![b'x'; WINDOW + 1])),
        ("credit for what was not sent", credit(stream::STDOUT, 1)),
        ("credit beyond all measure", credit(stream::STDOUT, u32::MAX as usize)),
        ("credit for what one sends", credit(stream::STDIN, 1)),
        ("bytes for stdout", data(stream::STDOUT, b"x")),
        ("an unknown kind", frame(0x55, "")),
        ("kind zero", frame(0, "")),
        ("bytes that are no frames", b"POST /exec HTTP/1.1\r\n\r\n".to_vec()),
        ("a length beyond the limit", [&[kind::DATA][..], &oversize].concat()),
        ("a length beyond all measure", b"\x02\xff\xff\xff\xff".to_vec()),
        ("a Start as long as a runner takes", b"\x01\0\x41\0\0".to_vec()),
        ("Start", start_frame(&session)),
        ("Cancel", frame(kind::CANCEL, cancel)),
        ("Started", frame(kind::STARTED, [&serial[..], &serial, &[0, 0, 0]].concat())),
        ("Exit", frame(kind::EXIT, exit)),
        ("StartError", frame(kind::START_ERROR, [&serial[..], &[1], b"no"].concat())),
        ("Stopped", frame(kind::STOPPED, [&[20][..], &serial].concat())),
        ("Left", frame(kind::LEFT, serial)),
        ("Hello", frame(kind::HELLO, [4])),
        ("Setup", frame(kind::SETUP, setup)),
        ("Kill", frame(kind::KILL, kill)),
        ("Killed", frame(kind::KILLED, [&serial[..], &[0]].concat())),
        ("Data of nothing", frame(kind::DATA, [stream::STDIN])),
        ("Data of no stream", frame(kind::DATA, "")),
        ("Data of a stream that does not exist", frame(kind::DATA, b"\x04x")),
        ("Closed of a stream that does not exist", frame(kind::CLOSED, [9])),
        ("Closed with more behind it", frame(kind::CLOSED, [0, 0])),
        ("Credit that is cut off", frame(kind::CREDIT, b"\0\0\0")),
        ("signal 0", frame(kind::SIGNAL, [0])),
        ("signal 65", frame(kind::SIGNAL, [65])),
        ("a signal by its name", frame(kind::SIGNAL, "TERM")),
        ("half a size", frame(kind::RESIZE, [0, 80])),
        ("half a frame, and the end", b"\x02\0\0\0\x10\0half".to_vec()),
    ];
    for (what, bytes) in rows {
        let id = fresh_id();
        let call = sh(&session, "echo ready; exec sleep 1000").stdin(Stdio::Relayed).id(&id);
        let (mut client, started) = Client::start(&session, call);
        let ready = client.expect("ready\n");
        assert_eq!((ready.as_str(), started.stdio), ("ready\n", [2, 2, 2]));
        // The row may have closed the connection.
        let _ = client.try_send(bytes);
        if what.ends_with("the end") {
            client.half_close();
        }
        assert_eq!(client.finish().exit, None, "{what}: the connection ends without an exit frame");
        eventually(&format!("{what}: the tool is gone"), || tagged_processes(&id).is_empty());
        bystander.check(what);
    }
    assert!(!fs::exists(session.file("started")).unwrap(), "no frame of a client starts anything");
    let lost = session.log_lines(&["disconnect exec_id="]);
    assert_eq!(lost.len(), 33, "each is logged: {lost:?}");
}

/// The seed of the random frames, the same for every run.
const SEED: u64 = 3;
const CLIENTS: usize = 320;
/// Concurrent clients, so that their signal escalations overlap.
const CROWD: usize = 32;

/// Random frames.
fn noise(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(8) {
        let length = random.below(300);
        let rest: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        let small = rest[..random.below(8).min(length)].to_vec();
        let number = random.pick(&[0, 1, 2, 3, 4]);
        bytes.extend(match random.below(10) {
            0 => rest,
            1 => frame(random.byte(), small),
            2 => frame(random.byte() & 0x27, rest),
            3 => frame(kind::SIGNAL, [random.byte() & 0x7f]),
            4 => frame(kind::CLOSED, [number]),
            5 => credit(number, random.below(WINDOW)),
            6 => frame(kind::RESIZE, small),
            7 => data(number, &vec![0; random.below(WINDOW)]),
            _ => data(number, &rest),
        });
    }
    if random.below(4) == 0 {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes
}

#[test]
fn random_frames_disturb_no_other_client() {
    let session = session();
    let mut bystander = Bystander::new(&session);
    let before = ResourceUsage::of(&session);
    let mut ids = Vec::new();
    for round in 0..CLIENTS / CROWD {
        let mut crowd = Vec::new();
        for number in 0..CROWD {
            let mut random = Random::new(SEED, (round * CROWD + number) as u64);
            let id = fresh_id();
            let call = sh(&session, "exec cat").stdin(Stdio::Relayed).id(&id);
            let call = if random.below(3) == 0 { call.on_terminal() } else { call };
            let (mut client, _) = Client::start(&session, call);
            let _ = client.try_send(noise(&mut random));
            crowd.push(client);
            ids.push(id);
        }
        bystander.check(&format!("round {round}"));
    }
    // A stopped tool handles neither INT nor TERM; KILL follows after three seconds.
    eventually_within(2 * DEADLINE, "every tool is gone", || {
        ids.retain(|id| !tagged_processes(id).is_empty());
        ids.is_empty()
    });
    eventually("no fd and no process is gained", || {
        let now = ResourceUsage::of(&session);
        now.has_no_more_fds_than(&before) && now.processes == before.processes
    });
    bystander.check("all of them");
}
