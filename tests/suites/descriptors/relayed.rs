//! Relayed bytes: all arrive, and streams do not block each other.

use std::fs::{self, File};
use std::io::{self, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use aifo_tests::frames::{Frame, WINDOW, credit, data, frame, kind, stream};
use aifo_tests::{
    Client, RandomBytes, Running, Signal, Stdio, eventually, fresh_id, is_stopped, is_zombie,
    passes_descriptors, send_signal, tagged_processes,
};

use crate::descriptors::{in_sh, session, sh};

const USR1: u8 = 10;
const PIPE: u8 = 13;
const TERM: u8 = 15;
const CONT: u8 = 18;
const TSTP: u8 = 20;

const STDIN_ENDS: [u8; 1] = [stream::STDIN];

/// More than all buffers hold, in odd pieces.
#[test]
fn bulk_arrives_both_ways_as_it_was_sent() {
    const TOTAL: u64 = 64 << 20;
    let session = session();
    let (mut client, started) =
        Client::start(&session, sh(&session, "exec cat").stdin(Stdio::Relayed));
    assert_eq!(started.stdio, [2, 2, 2]);
    let (mut sent, mut received) = (RandomBytes::new(1), RandomBytes::new(1));
    let mut may_send = WINDOW;
    let mut is_closed = false;
    let exit = loop {
        while may_send > 0 && sent.position() < TOTAL {
            let most = may_send.min(usize::try_from(TOTAL - sent.position()).unwrap());
            let block = sent.next(most.min(50_021));
            may_send -= block.len();
            client.send(data(stream::STDIN, block));
        }
        if sent.position() == TOTAL && !is_closed {
            client.send(frame(kind::CLOSED, STDIN_ENDS));
            is_closed = true;
        }
        match client.frame_by(997).expect("the connection lasts to the end") {
            Frame::Data(stream::STDOUT, bytes) => {
                received.check(&bytes);
                // The connection may be closed after the last one.
                let _ = client.try_send(credit(stream::STDOUT, bytes.len()));
            }
            Frame::Credit(stream::STDIN, bytes) => may_send += bytes,
            Frame::Closed(stream::STDOUT | stream::STDERR) => {}
            Frame::Exit(exit) => break exit,
            other => panic!("{other:?}"),
        }
        assert!(may_send <= WINDOW, "never more than a window is granted");
    };
    assert_eq!((received.position(), exit.ending, exit.taken), (TOTAL, Ok(0), TOTAL));
}

/// The number of bytes a process has written.
fn written_by(pid: i32) -> usize {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok());
    written.unwrap_or_default()
}

/// Reads a whole window of stdout and grants no credit.
#[track_caller]
fn take_a_window(client: &mut Client) {
    let mut taken = 0;
    while taken < WINDOW {
        let Some(Frame::Data(stream::STDOUT, bytes)) = client.frame() else { panic!("no data") };
        taken += bytes.len();
    }
    assert_eq!(taken, WINDOW, "and not a byte more");
}

/// Neither a full window nor an unread socket delays a signal.
#[test]
fn a_signal_overtakes_unread_output() {
    let session = session();
    for reads in [false, true] {
        let id = fresh_id();
        let (mut client, started) = Client::start(&session, sh(&session, "exec yes").id(&id));
        eventually("it has filled all there is", || written_by(started.pid) > WINDOW);
        if reads {
            take_a_window(&mut client);
        }
        client.send(frame(kind::SIGNAL, [TERM]));
        eventually("the tool has ended", || tagged_processes(&id).is_empty());
        if reads {
            client.send(credit(stream::STDOUT, WINDOW));
        }
        let finished = client.finish();
        assert_eq!(finished.ending(), Err(TERM));
        let rest = finished.stdout.len() + usize::from(reads) * WINDOW;
        assert!(rest > WINDOW, "what stood in the pipe is the client's");
    }
}

/// stdout is blocked; stderr and stdin continue.
#[test]
fn one_stream_does_not_hold_up_another() {
    let session = session();
    let script = "yes & while read -r line; do echo \"$line\" >&2; done; kill $!";
    let (mut client, _) = Client::start(&session, sh(&session, script).stdin(Stdio::Relayed));
    take_a_window(&mut client);
    for round in 0..10 {
        let line = format!("round {round}\n").into_bytes();
        client.send(data(stream::STDIN, &line));
        assert_eq!(client.frame(), Some(Frame::Data(stream::STDERR, line)));
    }
    client.send(frame(kind::CLOSED, STDIN_ENDS)).send(credit(stream::STDOUT, WINDOW));
    assert_eq!(client.finish().ending(), Ok(0));
}

#[test]
fn a_tool_whose_output_is_not_read_gets_a_closed_pipe() {
    let session = session();
    let (mut client, _) = Client::start(&session, sh(&session, "exec yes"));
    client.frame().expect("it prints");
    client.send(frame(kind::CLOSED, [stream::STDOUT]));
    assert_eq!(client.finish().ending(), Err(PIPE));

    let script = "read go; echo to nobody || echo told $? >&2";
    for (script, ending, printed) in [
        (script.to_owned(), Err(PIPE), ""),
        // A tool that ignores SIGPIPE gets the error.
        (format!("trap '' PIPE; {script}"), Ok(0), "told 1\n"),
    ] {
        let call = sh(&session, &script).stdin(Stdio::Relayed);
        let (mut client, _) = Client::start(&session, call);
        client.send(frame(kind::CLOSED, [stream::STDOUT])).send(data(stream::STDIN, b"go\n"));
        let finished = client.finish();
        assert_eq!((finished.text().as_str(), finished.ending()), ("", ending));
        let error = String::from_utf8_lossy(&finished.stderr);
        assert!(error.ends_with(printed), "{error}");
    }
}

#[test]
fn a_tool_that_closes_its_input_is_reported() {
    let session = session();
    let script = "exec <&-; echo closed; exec sleep 1000";
    let (mut client, _) = Client::start(&session, sh(&session, script).stdin(Stdio::Relayed));
    client.expect("closed\n");
    client.send(data(stream::STDIN, b"to nobody"));
    assert_eq!(client.frame(), Some(Frame::Closed(stream::STDIN)));
    client.send(data(stream::STDIN, b"this was on its way"));
    client.send(frame(kind::SIGNAL, [TERM]));
    assert_eq!(client.finish().ending(), Err(TERM));
}

/// A client needs the count to restore a file's offset.
#[test]
fn input_that_a_tool_read_is_counted() {
    let session = session();
    let sizes = [(0, 0), (1, 0), (1000, 10), (200_000, 100_000), (WINDOW, WINDOW)];
    for ((sent, read), ends) in sizes.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        let script = format!(
            "trap 'exit 7' USR1; dd bs=1 count={read} status=none >/dev/null; echo ready; \
             sleep 1000 & wait"
        );
        let call = sh(&session, &script).stdin(Stdio::Relayed);
        let (mut client, _) = Client::start(&session, call);
        client.send(data(stream::STDIN, &vec![b'x'; sent]));
        if ends {
            client.send(frame(kind::CLOSED, STDIN_ENDS));
        }
        client.expect("ready\n");
        client.send(frame(kind::SIGNAL, [USR1]));
        let exit = client.finish().exit.expect("it ends by itself");
        let taken = read as u64;
        assert_eq!((exit.ending, exit.taken), (Ok(7), taken), "{read} of {sent}, ended: {ends}");
    }
}

/// Input that arrives while the tool ends was not read by it.
#[test]
fn input_after_the_tools_end_is_not_read() {
    let session = session();
    let call = sh(&session, "exec sleep 1000").stdin(Stdio::Relayed);
    let (mut client, started) = Client::start(&session, call);
    let runner = session.sidecars()[0].runner;
    send_signal(runner, Signal::SIGSTOP);
    eventually("the runner is stopped", || is_stopped(runner));
    send_signal(started.pid, Signal::SIGKILL);
    eventually("the tool has ended", || is_zombie(started.pid));
    client.send(data(stream::STDIN, &[b'x'; 1000]));
    send_signal(runner, Signal::SIGCONT);
    let exit = client.finish().exit.expect("there is an exit frame");
    assert_eq!((exit.ending, exit.taken), (Err(9), 0));
}

#[test]
fn a_stop_is_reported_after_the_signals_before_it() {
    let session = session();
    let (mut client, started) = Client::start(&session, sh(&session, "exec sleep 1000"));
    for resumed in 0..3 {
        client.send(frame(kind::SIGNAL, [TSTP]));
        assert_eq!(client.frame(), Some(Frame::Stopped(TSTP, resumed)));
        assert!(is_stopped(started.pid));
        client.send(frame(kind::SIGNAL, [CONT]));
        eventually("it goes on", || !is_stopped(started.pid));
    }
    client.send(frame(kind::SIGNAL, [TERM]));
    assert_eq!(client.finish().ending(), Err(TERM));
}

/// Passed descriptors need no frames.
#[test]
fn passed_descriptors_need_no_frames() {
    if !passes_descriptors("passed_descriptors_need_no_frames") {
        return;
    }
    let session = session();
    let ((input, mut source), (target, output)) = (pipe().unwrap(), pipe().unwrap());
    let call = sh(&session, "exec cat").stdin(Stdio::pass(input)).stdout(Stdio::pass(output));
    let (mut client, started) = Client::start(&session, call.stderr(Stdio::Null));
    assert_eq!(started.stdio, [1, 1, 0]);
    source.write_all(b"through the kernel alone").unwrap();
    drop(source);
    assert_eq!(io::read_to_string(target).unwrap(), "through the kernel alone");
    let Some(Frame::Exit(exit)) = client.frame() else { panic!("the first frame is the last") };
    assert_eq!((exit.ending, exit.taken), (Ok(0), 0));
}

/// The shim's stdin, and the bytes that a tool reads.
#[test]
fn a_shim_carries_whatever_it_has() {
    let session = session();
    let outside = session.scratch().join("outside");
    fs::write(&outside, "of the caller").unwrap();
    let (mut source, socket) = UnixStream::pair().unwrap();
    source.write_all(b"through a socket").unwrap();
    drop(source);
    let rows = [
        ("socket", OwnedFd::from(socket), "cat", "through a socket"),
        ("file outside", File::open(&outside).unwrap().into(), "cat", "of the caller"),
        ("directory", File::open("/").unwrap().into(), "cat", ""),
        ("zero", File::open("/dev/zero").unwrap().into(), "head -c 5", "\0\0\0\0\0"),
        ("full", File::open("/dev/full").unwrap().into(), "head -c 5", "\0\0\0\0\0"),
    ];
    for (what, stdin, script, expected) in rows {
        let mut shim = session.shim("make");
        let outcome = Running::start(shim.args(["-c", &in_sh(script)]).stdin(stdin)).finish();
        assert_eq!(outcome.exited(0).text(), expected, "{what}");
    }
}

/// After a relayed file was read ahead, its offset is where the tool stopped.
#[test]
fn a_relayed_file_is_read_no_further_than_the_tool_did() {
    let session = session();
    let outside = session.scratch().join("outside");
    let lines: String = (0..1000).map(|number| format!("line {number}\n")).collect();
    fs::write(&outside, lines).unwrap();
    let file = File::open(&outside).unwrap();
    for number in 0..100 {
        let mut shim = session.shim("make");
        let script = in_sh("read -r line; echo \"$line\"");
        let stdin = file.try_clone().unwrap();
        let outcome = Running::start(shim.args(["-c", &script]).stdin(stdin)).finish();
        assert_eq!(outcome.exited(0).text(), format!("line {number}\n"));
    }
}
