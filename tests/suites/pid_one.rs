//! The runner as PID 1 of a sidecar; the suite is its proxy and sends frames as in
//! `spec/runner.md`.
//!
//! Proves `spec/runner.md#control-connection`, `spec/runner.md#life-of-an-exec`,
//! `spec/runner.md#monitor`, `spec/runner.md#pid-1`.

use std::cell::Cell;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use aifo_tests::{
    DEADLINE, Scratch, Signal, binaries, can_run, children, descendants, eventually, fd_count,
    fresh_id, is_alive, is_zombie, send_signal, tagged_processes,
};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

const NAMESPACE: [&str; 4] = ["/usr/bin/unshare", "--pid", "--fork", "--mount-proc"];

const START: u8 = 0x01;
const DATA: u8 = 0x02;
const CLOSED: u8 = 0x03;
const CANCEL: u8 = 0x05;
const STARTED: u8 = 0x10;
const EXIT: u8 = 0x13;
const START_ERROR: u8 = 0x14;
const LEFT: u8 = 0x16;
const HELLO: u8 = 0x20;
const BIND: u8 = 0x2b;
const CONNECT: u8 = 0x2c;
const OPENED: u8 = 0x2d;
const SETUP: u8 = 0x21;
const LISTEN: u8 = 0x27;
const LISTENING: u8 = 0x28;

const STDOUT: u8 = 1;
/// No stdin, a runner's pipe for stdout, and stderr the same.
const STDIO: [u8; 3] = [0, 2, 5];

/// Causes of a cancel and of a failed start.
const DISCONNECT: u8 = 2;
const END_OF_SESSION: u8 = 3;
const NOT_IN_PATH: u8 = 1;

/// Bytes that the runner must send to the client first, unread.
const GREETING: &[u8] = b"\0greeting\xff\r\n";

/// `aifo-runner serve` as PID 1 of its own namespace, and its control connection.
struct PidOne {
    unshare: Child,
    runner: i32,
    control: Option<UnixStream>,
    serials: Cell<u32>,
    /// The number of open descriptors after `Hello`, before any frame.
    fds: usize,
    scratch: Scratch,
}

/// A running call, with the client connection.
struct Call {
    serial: u32,
    client: UnixStream,
}

impl PidOne {
    /// Without namespaces, reports the test as skipped and returns `None`.
    #[track_caller]
    fn start(test: &str) -> Option<Self> {
        Self::start_by(test, |serve, _| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            serve.stdin(OwnedFd::from(theirs));
            move || ours
        })
    }

    /// Starts it with a control connection: `prepare` runs before the start, and the function that it
    /// returns after it, which returns the connection.
    #[track_caller]
    fn start_by<Connected: FnOnce() -> UnixStream>(
        test: &str,
        prepare: impl FnOnce(&mut Command, &Path) -> Connected,
    ) -> Option<Self> {
        if !can_run(&format!("pid_one::{test}"), &[&NAMESPACE[..], &["/bin/true"]].concat()) {
            return None;
        }
        let scratch = Scratch::new();
        for dir in ["workspace", "tmp", "tools"] {
            std::fs::create_dir(scratch.path().join(dir)).unwrap();
        }
        symlink(&binaries().tool, scratch.path().join("tools/tool")).unwrap();
        // The name selects the binary's program.
        let runner = scratch.path().join("aifo-runner");
        symlink(&binaries().shim, &runner).unwrap();

        let mut command = Command::new(NAMESPACE[0]);
        command.args(&NAMESPACE[1..]).arg(runner).arg("serve").env_clear();
        command.env("PATH", scratch.path().join("tools"));
        let connected = prepare(&mut command, scratch.path());
        let unshare = command.spawn().unwrap();
        // The command may hold the other end of the connection, too.
        drop(command);
        let mut control = connected();
        control.set_read_timeout(Some(DEADLINE)).unwrap();

        assert_eq!(read_frame(&mut control), Some((HELLO, vec![9])));
        let [runner] = children(unshare.id().cast_signed())[..] else { panic!("one child") };
        let fds = fd_count(runner);
        let places = ["workspace", "tmp"].map(|name| scratch.path().join(name));
        let places = places.each_ref().map(|path| string(path.to_str().unwrap().as_bytes()));
        let one = 1u32.to_be_bytes();
        let [workspace, tmp] = &places;
        let setup = [&one[..], workspace, &one, tmp, &string(b"c-cpp")].concat();
        control.write_all(&frame(SETUP, &setup)).unwrap();
        let (control, serials) = (Some(control), Cell::new(1));
        Some(PidOne { unshare, runner, control, serials, fds, scratch })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join("workspace").join(name)
    }

    /// Requests a tool; returns its serial number and the client connection.
    fn ask(&self, name: &str, id: &str, args: &[&str]) -> (u32, UnixStream) {
        let (client, theirs) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        let serial = self.serials.replace(self.serials.get() + 1);
        // `StartError` on failure; no program (the runner uses PATH), the whole environment, a
        // client with a greeting and no input yet. The proxy gets `Started`, too. The call has a network and
        // no user, and was not asked about.
        let head = [&serial.to_be_bytes()[..], &[0], &string(id.as_bytes()), &[0, 0, 1]].concat();
        let handover = [string(GREETING), string(b""), vec![1, 0, 0, 0]].concat();
        let start = [head, handover, invocation(name, args)].concat();
        let (start, fds) = (frame(START, &start), [theirs.as_raw_fd()]);
        let rights = [ControlMessage::ScmRights(&fds)];
        let slices = [IoSlice::new(&start)];
        let control = self.control().as_raw_fd();
        let sent = sendmsg::<UnixAddr>(control, &slices, &rights, MsgFlags::empty(), None);
        assert_eq!(sent, Ok(start.len()), "what a test sends is short");
        (serial, client)
    }

    /// Starts a tool.
    #[track_caller]
    fn start_tool(&self, id: &str, args: &[&str]) -> Call {
        let (serial, mut client) = self.ask("tool", id, args);
        let proxy_frame = self.proxy_frame();
        let mut greeting = [0; GREETING.len()];
        client.read_exact(&mut greeting).expect("the client is greeted");
        assert_eq!(greeting, GREETING);
        let (kind, payload) = read_frame(&mut client).expect("a frame after the greeting");
        assert_eq!((kind, payload.len()), (STARTED, 11));
        assert_eq!((&payload[..4], &payload[8..]), (&serial.to_be_bytes()[..], &STDIO[..]));
        assert_eq!(proxy_frame, (STARTED, payload), "the proxy gets the same");
        Call { serial, client }
    }

    /// Runs a tool to its end; returns its output and its ending.
    #[track_caller]
    fn run(&self, args: &[&str]) -> (String, [u8; 2]) {
        let mut call = self.start_tool(&fresh_id(), args);
        let mut output = Vec::new();
        let exit = loop {
            match read_frame(&mut call.client).expect("an exit frame") {
                (DATA, payload) => {
                    assert_eq!(payload[0], STDOUT);
                    output.extend_from_slice(&payload[1..]);
                }
                (CLOSED, stream) => assert_eq!(stream, [STDOUT], "all writers have closed"),
                (EXIT, payload) => break payload,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(read_frame(&mut call.client), None, "the ending is the last frame");
        assert_eq!((exit.len(), &exit[..4]), (48, &call.serial.to_be_bytes()[..]));
        assert_eq!(exit[6..16], [0; 10], "it ended by itself and read everything");
        let ending = [exit[4], exit[5]];
        assert_eq!(self.proxy_frame(), (EXIT, exit), "the proxy gets the same");
        (String::from_utf8(output).unwrap(), ending)
    }

    /// The proxy's next frame.
    #[track_caller]
    fn proxy_frame(&self) -> (u8, Vec<u8>) {
        read_frame(self.control()).expect("the runner is there")
    }

    /// Expects the report that KILL ended this call's tool, with the cause.
    #[track_caller]
    fn check_killed(&self, serial: u32, cause: u8) {
        let (kind, payload) = self.proxy_frame();
        let expected = [&serial.to_be_bytes()[..], &[1, 9, cause]].concat();
        assert_eq!((kind, payload.get(..7)), (EXIT, Some(&expected[..])));
    }

    fn control(&self) -> &UnixStream {
        self.control.as_ref().expect("the connection is open")
    }

    /// Closes the control connection, or runs `how`, and waits for the runner's end.
    #[track_caller]
    fn end(&mut self, how: impl FnOnce(&mut Self)) -> ExitStatus {
        how(self);
        let mut status = None;
        eventually("PID 1 has ended", || {
            status = self.unshare.try_wait().unwrap();
            status.is_some()
        });
        status.expect("the loop ends with a status")
    }
}

impl Drop for PidOne {
    fn drop(&mut self) {
        drop(self.control.take());
        let patience = Instant::now();
        while let Ok(None) = self.unshare.try_wait() {
            if patience.elapsed() > DEADLINE {
                // The kernel ends a namespace with its PID 1.
                send_signal(self.runner, Signal::SIGKILL);
            }
            sleep(Duration::from_millis(2));
        }
    }
}

/// An invocation with only name, arguments and standard descriptors.
fn invocation(name: &str, args: &[&str]) -> Vec<u8> {
    let argv: Vec<_> = [name].iter().chain(args).map(|arg| string(arg.as_bytes())).collect();
    let count = u32::try_from(argv.len()).unwrap().to_be_bytes();
    // No directory (the workspace root), no variable, no umask, no nice value, no limit; no ignored
    // signal.
    let nothing = [[0; 8], [0; 8]].concat();
    [&count[..], &argv.concat(), &nothing, &STDIO, &[0]].concat()
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &string(payload)].concat()
}

/// A string with its length.
fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("what a test sends is short");
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Kind and payload of the next frame; `None` at the end of the stream.
#[track_caller]
fn read_frame(mut stream: impl Read) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    if stream.read(&mut head[..1]).expect("the runner speaks in time") == 0 {
        return None;
    }
    stream.read_exact(&mut head[1..]).unwrap();
    let mut payload = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize];
    stream.read_exact(&mut payload).unwrap();
    Some((head[0], payload))
}

#[test]
fn every_ending_is_exact() {
    let Some(one) = PidOne::start("every_ending_is_exact") else { return };
    let (ids, ending) = one.run(&["ids"]);
    assert_eq!(ending, [0, 0]);
    let pid: i32 = ids.split(' ').next().unwrap().parse().unwrap();
    assert!(pid > 1, "a tool of PID 1: {ids}");
    for code in 0..=255 {
        assert_eq!(one.run(&["exit", &code.to_string()]), (String::new(), [0, code]));
    }
    for signal in [1, 2, 3, 6, 9, 11, 13, 15] {
        assert_eq!(one.run(&["die", &signal.to_string()]).1, [1, signal]);
    }
}

/// Then a count at that point is complete.
#[test]
fn its_descriptors_are_open_before_it_sends_hello() {
    let test = "its_descriptors_are_open_before_it_sends_hello";
    let Some(one) = PidOne::start(test) else { return };
    assert_eq!(one.run(&["exit", "0"]).1, [0, 0]);
    // It may close one that the session does not need.
    eventually("nothing more is open", || fd_count(one.runner) <= one.fds);
}

/// A tool could take an address first, or hold a listener's copy.
#[test]
fn listeners_are_bound_once_before_any_tool_and_passed() {
    let test = "listeners_are_bound_once_before_any_tool_and_passed";
    let Some(one) = PidOne::start(test) else { return };
    let listen = |one: &PidOne| {
        let port = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        one.control().write_all(&frame(LISTEN, &port.to_be_bytes())).unwrap();
    };
    listen(&one);
    let (kind, error) = one.proxy_frame();
    // Only root may bind port 53, and this machine may use it.
    let is_bound = error.is_empty();
    assert!(kind == LISTENING && (is_bound || error.starts_with(b"cannot listen on port ")));
    eventually("it keeps no copy", || fd_count(one.runner) <= one.fds);
    listen(&one);
    assert_eq!(read_frame(one.control()), None, "once");

    let Some(one) = PidOne::start(test) else { return };
    assert_eq!(one.run(&["exit", "0"]).1, [0, 0]);
    listen(&one);
    assert_eq!(read_frame(one.control()), None, "before any tool");
}

/// Mirrors and connections of a stack: the runner passes the sockets and keeps no copy.
#[test]
fn sockets_are_passed_on_request_and_not_kept() {
    let Some(one) = PidOne::start("sockets_are_passed_on_request_and_not_kept") else { return };
    let request = |kind: u8, fields: &[u8], port: u16| {
        let payload = [&7u32.to_be_bytes()[..], fields, &port.to_be_bytes()].concat();
        one.control().write_all(&frame(kind, &payload)).unwrap();
        let (reply, payload) = one.proxy_frame();
        assert_eq!((reply, &payload[..4]), (OPENED, &7u32.to_be_bytes()[..]));
        payload[4]
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(request(BIND, &[], port), 1, "in use");
    assert_eq!(request(CONNECT, &[0], port), 0);
    listener.accept().unwrap();
    drop(listener);
    assert_eq!(request(BIND, &[], port), 0);
    eventually("it keeps no copy", || fd_count(one.runner) <= one.fds);
}

/// Only the tool can be preferred: the runner's end would end every tool.
#[test]
fn a_tool_goes_before_pid_1_when_memory_runs_out() {
    let Some(one) = PidOne::start("a_tool_goes_before_pid_1_when_memory_runs_out") else { return };
    let score = |pid: i32| {
        let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        score.trim_end().parse::<i32>().unwrap()
    };
    let _call = one.start_tool(&fresh_id(), &["wait"]);
    let [tool] = children(one.runner)[..] else { panic!("one child") };
    let ours = score(std::process::id().cast_signed());
    assert_eq!((score(one.runner), score(tool)), (ours, (ours + 500).min(1000)));
}

#[test]
fn orphans_are_reaped() {
    let Some(one) = PidOne::start("orphans_are_reaped") else { return };
    for number in 0..50 {
        let leaf = one.file(&format!("leaf{number}"));
        assert_eq!(one.run(&["daemon", leaf.to_str().unwrap()]).1, [0, 0]);
    }
    let orphans = children(one.runner);
    assert_eq!(orphans.len(), 50, "what was forked twice has become a child of PID 1");
    for orphan in &orphans {
        send_signal(*orphan, Signal::SIGKILL);
    }
    eventually("no zombie is left", || children(one.runner).is_empty());
    assert_eq!(one.run(&["exit", "4"]).1, [0, 4], "it goes on serving");
}

#[test]
fn a_client_that_leaves_ends_the_whole_family() {
    let Some(one) = PidOne::start("a_client_that_leaves_ends_the_whole_family") else { return };
    let (id, leaf) = (fresh_id(), one.file("leaf"));
    let Call { serial, client } = one.start_tool(&id, &["stubborn-tree", leaf.to_str().unwrap()]);
    eventually("the family is complete", || leaf.exists());
    assert_eq!(tagged_processes(&id).len(), 2);
    drop(client);
    assert_eq!(one.proxy_frame(), (LEFT, serial.to_be_bytes().to_vec()));
    one.check_killed(serial, DISCONNECT);
    eventually("nothing of the exec is left", || tagged_processes(&id).is_empty());
    eventually("and nothing is left to be reaped", || children(one.runner).is_empty());
    assert!(is_alive(one.runner));
}

#[test]
fn a_cancel_is_reported_to_both_sides() {
    let Some(one) = PidOne::start("a_cancel_is_reported_to_both_sides") else { return };
    let (id, leaf) = (fresh_id(), one.file("leaf"));
    let mut call = one.start_tool(&id, &["stubborn-tree", leaf.to_str().unwrap()]);
    eventually("the family is complete", || leaf.exists());
    let cancel = [&call.serial.to_be_bytes()[..], &[END_OF_SESSION, 0]].concat();
    one.control().write_all(&frame(CANCEL, &cancel)).unwrap();
    let mut first = read_frame(&mut call.client);
    // A killed process may hold the pipe when the tool is reaped; then `Exit` alone ends the stream.
    if first == Some((CLOSED, vec![STDOUT])) {
        first = read_frame(&mut call.client);
    }
    let (kind, payload) = first.expect("an exit frame");
    assert_eq!((kind, payload.get(4..7)), (EXIT, Some(&[1, 9, END_OF_SESSION][..])));
    assert_eq!(read_frame(&mut call.client), None, "the ending is the last frame");
    one.check_killed(call.serial, END_OF_SESSION);
    eventually("nothing of the exec is left", || tagged_processes(&id).is_empty());
}

#[test]
fn the_proxy_reports_a_missing_tool() {
    let Some(one) = PidOne::start("the_proxy_reports_a_missing_tool") else {
        return;
    };
    let (serial, mut client) = one.ask("no-such-tool", &fresh_id(), &[]);
    let (kind, payload) = one.proxy_frame();
    let expected = [&serial.to_be_bytes()[..], &[NOT_IN_PATH]].concat();
    assert_eq!((kind, payload.get(..5)), (START_ERROR, Some(&expected[..])));
    assert_eq!(read_frame(&mut client), None, "the client has received nothing");
    assert_eq!(one.run(&["exit", "4"]).1, [0, 4], "it goes on serving");
}

#[test]
fn the_end_of_the_control_connection_is_the_end() {
    let Some(mut one) = PidOne::start("the_end_of_the_control_connection_is_the_end") else {
        return;
    };
    let last = check_end(&mut one, |one| drop(one.control.take()));
    assert_eq!(last, None, "the client is let go at once, and its tool's ending is unknown");
}

/// The kernel delivers to PID 1 only signals with a handler.
#[test]
fn term_is_the_end_as_well() {
    let Some(mut one) = PidOne::start("term_is_the_end_as_well") else { return };
    let last = check_end(&mut one, |one| send_signal(one.runner, Signal::SIGTERM));
    let (kind, payload) = last.expect("an exit frame");
    assert_eq!((kind, payload.get(4..6)), (EXIT, Some(&[1, 9][..])));
}

#[test]
fn a_runner_that_connects() {
    let one = PidOne::start_by("a_runner_that_connects", |serve, scratch| {
        let path = scratch.join("control");
        let listener = UnixListener::bind(&path).unwrap();
        serve.arg("--connect").arg(&path).arg("--writable").arg(scratch).stdin(Stdio::null());
        move || {
            let (control, _) = listener.accept().unwrap();
            std::fs::remove_file(path).unwrap();
            control
        }
    });
    let Some(mut one) = one else { return };
    assert_eq!(one.run(&["say", "hello"]), ("hello\n".to_owned(), [0, 0]));
    assert_eq!(one.end(|one| drop(one.control.take())).code(), Some(0));
}

#[test]
fn a_runner_without_a_writable_directory_reports_it_and_serves_no_call() {
    let scratch = Scratch::new();
    let (runner, place) = (scratch.path().join("aifo-runner"), scratch.path().join("none"));
    symlink(&binaries().shim, &runner).unwrap();
    let serve = Command::new(runner).arg("serve").arg("--writable").arg(&place).output().unwrap();
    let proxy_frame = format!("aifo-shim: runner: not writable: {}\n", place.display());
    assert_eq!(String::from_utf8_lossy(&serve.stderr), proxy_frame);
    assert_eq!((serve.status.code(), serve.stdout), (Some(3), Vec::new()));
}

/// Ends a runner whose tool does not end by itself; returns the client's last frame.
#[track_caller]
fn check_end(one: &mut PidOne, how: impl FnOnce(&mut PidOne)) -> Option<(u8, Vec<u8>)> {
    let leaf = one.file("leaf");
    let mut call = one.start_tool(&fresh_id(), &["stubborn-tree", leaf.to_str().unwrap()]);
    eventually("the family is complete", || leaf.exists());
    let all = descendants(one.runner);
    assert!(all.len() >= 2, "{all:?}");
    assert_eq!(one.end(how).code(), Some(0));
    assert!(!all.iter().any(|&pid| is_alive(pid) || is_zombie(pid)), "no process is left");
    let mut last = None;
    while let Some(frame) = read_frame(&mut call.client) {
        last = Some(frame);
    }
    last
}
