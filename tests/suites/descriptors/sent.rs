//! Descriptors of a request, and the processes that hold them afterwards.

use std::fs::{self, File};
use std::io::{PipeWriter, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use aifo_tests::frames::{data, frame, kind, stream};
use aifo_tests::{
    Client, Invocation, ResourceUsage, Session, Stdio, eventually, fresh_id, passes_descriptors,
    pty,
};
use nix::libc::O_PATH;

use crate::descriptors::{session, sh};

/// The kernel's name of an open file, the same for all its holders.
fn name_of(fd: impl AsFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())).expect("the fd is open")
}

/// The processes of a session that have it open.
fn holders(session: &Session, name: &PathBuf) -> Vec<i32> {
    let all = [session.pid()].into_iter().chain(session.processes());
    let holds = |pid: &i32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == *name))
    };
    all.filter(holds).collect()
}

#[track_caller]
fn check_released(session: &Session, name: &PathBuf) {
    eventually("no process has it open", || holders(session, name).is_empty());
}

/// A call that declares its first descriptors as passed.
fn passing(session: &Session, count: usize, pipe: &PipeWriter) -> Invocation {
    let mut passed = (0..3).map(|number| match number < count {
        true => Stdio::pass(pipe.try_clone().expect("an fd can be cloned")),
        false => Stdio::Null,
    });
    let mut next = || passed.next().expect("there are three");
    let call = Invocation::new(session, "ninja", ["count", &session.file("ran")]);
    call.stdin(next()).stdout(next()).stderr(next())
}

#[test]
fn as_many_come_as_are_declared() {
    let session = session();
    for declared in 0..=3 {
        for sent in 0..=4 {
            let (_reader, writer) = pipe().unwrap();
            let request = passing(&session, declared, &writer).request(&session).encode();
            let mut client = Client::connect(&session);
            client.send_with(request, &vec![writer.as_fd(); sent]);
            if declared == sent {
                client.started();
                assert_eq!(client.finish().ending(), Ok(0));
                fs::remove_file(session.file("ran")).expect("it has run");
                continue;
            }
            let answer = client.answer();
            assert_eq!((answer.status(), answer.exit_code()), (400, Some("86")));
            let reason = match sent {
                4 => "too many file descriptors".to_owned(),
                _ => format!("received {sent} file descriptors, the invocation names {declared}"),
            };
            assert!(answer.text().starts_with(&format!("bad request: {reason}")), "{answer:?}");
            check_released(&session, &name_of(&writer));
        }
    }
    assert!(!fs::exists(session.file("ran")).unwrap(), "nothing else has run");
}

#[test]
fn no_other_request_takes_any() {
    let session = session();
    let (_reader, writer) = pipe().unwrap();
    let exec = session.exec("ninja", ["count", &session.file("ran")]);
    let signal = session.post("/signal").field("exec_id", fresh_id());
    let notify = session.post("/notify").field("cmd", "say");
    for request in [exec.clone().proto("1"), exec.proto("2"), signal, notify] {
        let mut client = Client::connect(&session);
        client.send_with(request.encode(), &[writer.as_fd()]);
        let answer = client.answer();
        assert_eq!((answer.status(), answer.exit_code()), (400, Some("86")));
        assert_eq!(answer.text(), "bad request: file descriptors belong to protocol 3\n");
        check_released(&session, &name_of(&writer));
    }
    assert!(!fs::exists(session.file("ran")).unwrap());
}

/// Clients attach them to the first byte, but the proxy does not depend on it.
#[test]
fn they_may_come_with_any_byte() {
    if !passes_descriptors("they_may_come_with_any_byte") {
        return;
    }
    let session = session();
    let script = "cat; echo error >&2";
    let (input, mut source) = pipe().unwrap();
    let (_unused, target) = pipe().unwrap();
    let call = || {
        let input = Stdio::pass(input.try_clone().unwrap());
        sh(&session, script).stdin(input).stderr(Stdio::pass(target.try_clone().unwrap()))
    };
    let length = call().request(&session).encode().len();
    for first in [0, 1, length / 2, length - 2] {
        let request = call().request(&session).encode();
        let (input, mut feed) = pipe().unwrap();
        let (mut printed, error) = pipe().unwrap();
        let mut client = Client::connect(&session);
        let (head, rest) = request.split_at(first);
        client.send(head).send_with(&rest[..1], &[input.as_fd()]);
        client.send_with(&rest[1..], &[error.as_fd()]);
        assert_eq!(client.started().stdio, [1, 2, 1], "apart at {first}");
        drop((input, error));
        feed.write_all(b"through\n").unwrap();
        drop(feed);
        let finished = client.finish();
        assert_eq!((finished.text().as_str(), finished.ending()), ("through\n", Ok(0)));
        assert_eq!(std::io::read_to_string(&mut printed).unwrap(), "error\n", "in the order sent");
    }
    source.write_all(b"nobody reads this").expect("the pipe that was never sent is untouched");
}

/// Calls refused for every reason, or cut off.
#[test]
fn a_thousand_refusals_keep_nothing() {
    let session = session();
    let (_reader, writer) = pipe().unwrap();
    let call = passing(&session, 3, &writer).request(&session);
    let other = |tool: &str| {
        let call = Invocation::new(&session, tool, ["say"]);
        let passed = || Stdio::pass(writer.try_clone().unwrap());
        call.stdin(passed()).stdout(passed()).stderr(passed())
    };
    let elsewhere = other("ninja").directory("/".as_ref()).request(&session);
    let refused = [
        (401, call.clone().with("Authorization", "Bearer wrong")),
        (401, call.clone().without("Authorization")),
        (404, call.clone().line("POST /elsewhere HTTP/1.1")),
        (405, call.clone().line("GET /exec HTTP/1.1")),
        (426, call.clone().without("Upgrade")),
        (426, call.clone().proto("4")),
        (400, call.clone().body("no invocation")),
        (400, elsewhere),
        (403, other("ls").request(&session)),
        (409, other("npm").request(&session)),
        (413, call.clone().body("x").with("Content-Length", "4194305")),
        (400, call.clone().with("X-Aifo-Exec-Id", "no id")),
    ];
    let fds = [writer.as_fd(); 3];
    let before = ResourceUsage::of(&session);
    for round in 0..1000 {
        let (status, request) = &refused[round % refused.len()];
        let mut client = Client::connect(&session);
        client.send_with(request.encode(), &fds);
        assert_eq!(client.answer().status(), *status, "{request:?}");
        let request = call.encode();
        Client::connect(&session).send_with(&request[..round % request.len() + 1], &fds);
    }
    check_released(&session, &name_of(&writer));
    eventually("no fd was kept", || ResourceUsage::of(&session).has_no_more_fds_than(&before));
}

#[test]
fn a_client_that_closes_at_once_ends_its_tool() {
    let session = session();
    let before = ResourceUsage::of(&session);
    let (_reader, writer) = pipe().unwrap();
    let request = passing(&session, 3, &writer).request(&session).encode();
    for _ in 0..20 {
        Client::connect(&session).send_with(&request, &[writer.as_fd(); 3]);
    }
    check_released(&session, &name_of(&writer));
    eventually("no fd was kept", || ResourceUsage::of(&session).has_no_more_fds_than(&before));
}

#[test]
fn only_the_tool_has_what_was_passed() {
    if !passes_descriptors("only_the_tool_has_what_was_passed") {
        return;
    }
    let session = session();
    let before = ResourceUsage::of(&session);
    let file = session.file("output");
    for on_terminal in [false, true] {
        let (_reader, writer) = pipe().unwrap();
        let output = File::create(&file).unwrap();
        let names = [name_of(&writer), name_of(&output)];
        let call = sh(&session, "echo ready >&2; exec sleep 1000").id(&fresh_id());
        let call = if on_terminal { call.on_terminal() } else { call.stdin(Stdio::Relayed) };
        let call = call.stdout(Stdio::pass(output)).stderr(Stdio::pass(writer));
        let (mut client, started) = Client::start(&session, call);
        for name in &names {
            eventually("the tool alone has it", || holders(&session, name) == [started.pid]);
        }
        client.send(frame(kind::SIGNAL, [15]));
        assert_eq!(client.finish().ending(), Err(15));
        names.iter().for_each(|name| check_released(&session, name));
    }
    eventually("no fd was kept", || ResourceUsage::of(&session).has_no_more_fds_than(&before));
}

#[test]
fn a_tool_has_0_1_and_2_and_no_more() {
    let session = session();
    let fds = || Invocation::new(&session, "ninja", ["fds"]);
    let (reader, writer) = pipe().unwrap();
    for call in [
        fds(),
        fds().stdin(Stdio::Relayed).stderr(Stdio::Same),
        fds().stdin(Stdio::pass(reader)).stderr(Stdio::pass(writer)),
        fds().on_terminal(),
        fds().on_terminal().stderr(Stdio::Relayed),
        fds().stdin(Stdio::Terminal).stderr(Stdio::Null),
    ] {
        let finished = Client::run(&session, call);
        let printed = [finished.text(), String::from_utf8_lossy(&finished.screen).into_owned()];
        let numbers: Vec<_> =
            printed.iter().flat_map(|text| text.lines()).map(|line| &line[..2]).collect();
        assert_eq!(numbers, ["0 ", "1 ", "2 "], "{finished:?}");
    }
    let script = "for fd in /proc/$$/fd/*; do [ -h $fd ] && echo ${fd##*/} >&$to; done; :";
    for (closed, expected) in [(0, "1\n2\n"), (1, "0\n2\n"), (2, "0\n1\n")] {
        let to = if closed == 1 { 2 } else { 1 };
        let call = sh(&session, &format!("to={to}; {script}"));
        let finished = Client::run(
            &session,
            match closed {
                0 => call.stdin(Stdio::Closed),
                1 => call.stdout(Stdio::Closed),
                _ => call.stderr(Stdio::Closed),
            },
        );
        let printed = [finished.stdout, finished.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&printed), expected, "without {closed}");
    }
}

#[test]
fn descriptors_that_may_not_pass_are_relayed() {
    if !passes_descriptors("descriptors_that_may_not_pass_are_relayed") {
        return;
    }
    let session = session();
    let outside = session.scratch().join("outside");
    fs::write(&outside, "of the caller").unwrap();
    fs::write(session.file("inside"), "of the caller").unwrap();
    symlink(&outside, session.file("way-out")).unwrap();
    let open = |path: &str| OwnedFd::from(File::open(path).unwrap());
    let outside = outside.to_str().unwrap();
    let deleted = session.file("deleted");
    fs::write(&deleted, "").unwrap();
    let deleted = (open(&deleted), fs::remove_file(deleted)).0;
    let path_only = |path: &str| {
        OwnedFd::from(File::options().read(true).custom_flags(O_PATH).open(path).unwrap())
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let inet = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ((master, line), unix) = (pty(), UnixStream::pair().unwrap());
    let (null, passed, relayed) = (0, 1, 2);
    let rows = [
        ("pipe", pipe().unwrap().0.into(), passed),
        ("file within", open(&session.file("inside")), passed),
        ("null", open("/dev/null"), null),
        ("file outside", open(outside), relayed),
        ("file outside, through a link within", open(&session.file("way-out")), relayed),
        ("deleted file", deleted, relayed),
        ("directory", open("/"), relayed),
        ("directory within", open(&session.file("")), relayed),
        ("O_PATH of a directory", path_only("/"), relayed),
        ("O_PATH of a file within", path_only(&session.file("inside")), relayed),
        ("zero", open("/dev/zero"), relayed),
        ("terminal", line, relayed),
        ("terminal, its other side", master, relayed),
        ("unix socket", unix.0.into(), relayed),
        ("inet socket", inet.into(), relayed),
    ];
    for (what, fd, expected) in rows {
        let call = sh(&session, "cat").stdin(Stdio::Passed(fd));
        let (mut client, started) = Client::start(&session, call);
        assert_eq!(started.stdio, [expected, relayed, relayed], "{what}");
        let expected = match (what, expected) {
            (_, 2) => {
                client.send(data(stream::STDIN, b"by frames"));
                client.send(frame(kind::CLOSED, [stream::STDIN]));
                "by frames"
            }
            ("file within", _) => "of the caller",
            _ => "",
        };
        let finished = client.finish();
        assert_eq!((finished.text().as_str(), finished.ending()), (expected, Ok(0)), "{what}");
    }
}

/// Also as stdout and stderr.
#[test]
fn output_is_relayed_as_well() {
    let session = session();
    let outside = || Stdio::pass(File::create(session.scratch().join("outside")).unwrap());
    let call = sh(&session, "echo out; echo err >&2").stdout(outside()).stderr(outside());
    let (client, started) = Client::start(&session, call);
    assert_eq!(started.stdio, [0, 2, 2]);
    let finished = client.finish();
    assert_eq!((&finished.stdout[..], &finished.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    let both = sh(&session, "echo out; echo err >&2").stdout(outside()).stderr(Stdio::Same);
    let (client, started) = Client::start(&session, both);
    assert_eq!(started.stdio, [0, 2, 5], "one object stays one");
    assert_eq!(client.finish().text(), "out\nerr\n");
    let untouched = fs::read(session.scratch().join("outside")).unwrap();
    assert_eq!(untouched, b"", "the client writes the relayed output");
}
