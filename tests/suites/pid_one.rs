//! The runner as PID 1 of a sidecar, with the suite as its proxy: frames spoken by hand, as
//! `spec/runner.md` has them.

use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use aifo_tests::{
    DEADLINE, Scratch, Signal, binaries, census, children, descendants, eventually, fresh_id,
    is_alive, is_zombie, possible, send_signal,
};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

const NAMESPACE: [&str; 4] = ["/usr/bin/unshare", "--pid", "--fork", "--mount-proc"];

const START: u8 = 0x01;
const STARTED: u8 = 0x10;
const STDOUT: u8 = 0x11;
const EXIT: u8 = 0x13;
const HELLO: u8 = 0x20;
const SETUP: u8 = 0x21;
const OPEN: u8 = 0x22;

/// `aifo-runner serve` as PID 1 of a namespace of its own, and its control connection.
struct PidOne {
    unshare: Child,
    runner: i32,
    control: Option<UnixStream>,
    scratch: Scratch,
}

impl PidOne {
    /// `None` on a machine without namespaces; the story is named then.
    #[track_caller]
    fn start(story: &str) -> Option<Self> {
        if !possible(&format!("pid_one::{story}"), &[&NAMESPACE[..], &["/bin/true"]].concat()) {
            return None;
        }
        let scratch = Scratch::new();
        for folder in ["workspace", "tmp", "tools"] {
            std::fs::create_dir(scratch.path().join(folder)).unwrap();
        }
        symlink(&binaries().tool, scratch.path().join("tools/tool")).unwrap();
        // Its name decides what the binary is.
        let runner = scratch.path().join("aifo-runner");
        symlink(&binaries().shim, &runner).unwrap();

        let (mut control, theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut command = Command::new(NAMESPACE[0]);
        command.args(&NAMESPACE[1..]).arg(runner).arg("serve").env_clear();
        command.env("PATH", scratch.path().join("tools")).stdin(OwnedFd::from(theirs));
        let unshare = command.spawn().unwrap();
        // The command holds the other end of the connection, too.
        drop(command);

        assert_eq!(read_frame(&mut control), Some((HELLO, vec![1])));
        let places = ["workspace", "tmp"].map(|name| scratch.path().join(name));
        let places = places.each_ref().map(|path| string(path.to_str().unwrap().as_bytes()));
        let setup = [places.concat(), string(b"c-cpp")].concat();
        control.write_all(&frame(SETUP, &setup)).unwrap();
        let [runner] = children(unshare.id().cast_signed())[..] else { panic!("one child") };
        Some(PidOne { unshare, runner, control: Some(control), scratch })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join("workspace").join(name)
    }

    /// Asks for a tool and returns its channel.
    #[track_caller]
    fn open(&self, id: &str, args: &[&str]) -> UnixStream {
        let (mut channel, theirs) = UnixStream::pair().unwrap();
        channel.set_read_timeout(Some(DEADLINE)).unwrap();
        let argv = ["tool"].iter().chain(args).flat_map(|arg| string(arg.as_bytes()));
        // Refuse elsewhere; no directory (the workspace root), no program (the PATH's), and the
        // whole environment.
        let start = [&[0][..], &string(id.as_bytes()), &[0, 0, 0]].concat().into_iter().chain(argv);
        channel.write_all(&frame(START, &start.collect::<Vec<_>>())).unwrap();
        let (open, fds) = (frame(OPEN, &[]), [theirs.as_raw_fd()]);
        let control = self.control.as_ref().expect("the connection is open").as_raw_fd();
        let rights = [ControlMessage::ScmRights(&fds)];
        let slices = [IoSlice::new(&open)];
        sendmsg::<UnixAddr>(control, &slices, &rights, MsgFlags::empty(), None).unwrap();
        channel
    }

    /// Runs a tool to its end: what it printed, and the first two bytes of `Exit`.
    #[track_caller]
    fn run(&self, args: &[&str]) -> (String, [u8; 2]) {
        let mut channel = self.open(&fresh_id(), args);
        assert_eq!(read_frame(&mut channel).map(|(kind, _)| kind), Some(STARTED));
        let mut output = Vec::new();
        loop {
            match read_frame(&mut channel).expect("the ending is told") {
                (STDOUT, data) => output.extend(data),
                (EXIT, payload) => {
                    assert_eq!(payload.len(), 34);
                    assert_eq!(read_frame(&mut channel), None, "the ending is the last frame");
                    return (String::from_utf8(output).unwrap(), [payload[0], payload[1]]);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Closes the control connection, or does something else, and waits for the runner's end.
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

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &string(payload)].concat()
}

/// So many bytes, behind their length.
fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("what a test sends is short");
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Kind and payload of the next frame; `None` at the end of the stream.
#[track_caller]
fn read_frame(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
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
fn a_closed_channel_ends_the_whole_family() {
    let Some(one) = PidOne::start("a_closed_channel_ends_the_whole_family") else { return };
    let (id, leaf) = (fresh_id(), one.file("leaf"));
    let channel = one.open(&id, &["stubborn-tree", leaf.to_str().unwrap()]);
    eventually("the family is complete", || leaf.exists());
    assert_eq!(census(&id).len(), 2);
    drop(channel);
    eventually("nothing of the exec is left", || census(&id).is_empty());
    eventually("and nothing is left to be reaped", || children(one.runner).is_empty());
    assert!(is_alive(one.runner));
}

#[test]
fn the_end_of_the_control_connection_is_the_end() {
    let Some(mut one) = PidOne::start("the_end_of_the_control_connection_is_the_end") else {
        return;
    };
    check_end(&mut one, |one| drop(one.control.take()));
}

/// The kernel keeps from PID 1 every signal that it does not ask for.
#[test]
fn term_is_the_end_as_well() {
    let Some(mut one) = PidOne::start("term_is_the_end_as_well") else { return };
    check_end(&mut one, |one| send_signal(one.runner, Signal::SIGTERM));
}

#[track_caller]
fn check_end(one: &mut PidOne, how: impl FnOnce(&mut PidOne)) {
    let leaf = one.file("leaf");
    let mut channel = one.open(&fresh_id(), &["stubborn-tree", leaf.to_str().unwrap()]);
    eventually("the family is complete", || leaf.exists());
    let all = descendants(one.runner);
    assert!(all.len() >= 2, "{all:?}");
    assert_eq!(one.end(how).code(), Some(0));
    assert!(!all.iter().any(|&pid| is_alive(pid) || is_zombie(pid)), "all of it is gone");
    let mut last = None;
    while let Some((kind, payload)) = read_frame(&mut channel) {
        last = Some((kind, payload.get(..2).map(<[u8]>::to_vec)));
    }
    assert_eq!(last, Some((EXIT, Some(vec![1, 9]))), "it is told how the tool ended");
}
