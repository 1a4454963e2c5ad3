//! A scripted proxy. Each test program uses a part of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use aifo_process::receive_with_fds;
use aifo_types::{Ending, ExecId, ExecRequest, Stdio};
use aifo_wire::{
    Exit, Frame, FrameReader, Limits, RequestEvent, RequestReader, ResourceUsage, Stream,
    encode_upgrade_head, parse_invocation,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tempfile::TempDir;

/// A listening socket in a temporary directory, with a link to the shim beside it.
#[derive(Debug)]
pub(crate) struct Proxy {
    directory: TempDir,
    listener: UnixListener,
}

impl Proxy {
    pub(crate) fn new() -> Self {
        Self::of(&shim_under_test(|| Path::new(env!("CARGO_BIN_EXE_aifo-shim"))))
    }

    /// Creates a proxy for this build of the shim.
    pub(crate) fn of(shim: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(shim, directory.path().join("make")).unwrap();
        let listener = UnixListener::bind(directory.path().join("sock")).unwrap();
        Proxy { directory, listener }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command that runs the shim as `make`.
    pub(crate) fn shim(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.directory().join("make"));
        let url = format!("unix://{}", self.directory().join("sock").display());
        command.args(args).env("AIFO_TOOLEEXEC_URL", url).env("AIFO_TOOLEEXEC_TOKEN", "t");
        command.env("AIFO_SHIM_KILL_PARENT_SHELL_ON_SIGINT", "0");
        command
    }

    /// Accepts a connection and reads its request.
    pub(crate) fn accept(&self) -> ClientSession {
        ClientSession::read(self.listener.accept().unwrap().0)
    }

    /// Accepts a connection of a shim and reads its request; `None` if the shim exits without one.
    pub(crate) fn accept_from(&self, shim: &mut Child) -> Option<ClientSession> {
        self.listener.set_nonblocking(true).unwrap();
        let mut socket = None;
        eventually("the shim connects or exits", || {
            // An exited shim may have connected before.
            let has_exited = shim.try_wait().unwrap().is_some();
            socket = self.listener.accept().ok().map(|(socket, _)| socket);
            has_exited || socket.is_some()
        });
        self.listener.set_nonblocking(false).unwrap();
        socket.map(ClientSession::read)
    }
}

/// Returns the shim in the directory of release binaries, or that of this build.
pub(crate) fn shim_under_test(of_this_build: impl FnOnce() -> &'static Path) -> PathBuf {
    let shipped = shipped_binaries();
    shipped.map_or_else(|| of_this_build().to_owned(), |dir| dir.join("aifo-shim"))
}

/// Returns the directory that `cargo xtask test shipped` names.
pub(crate) fn shipped_binaries() -> Option<PathBuf> {
    std::env::var_os("AIFO_TEST_BIN_DIR").map(PathBuf::from)
}

impl ClientSession {
    fn read(socket: UnixStream) -> Self {
        let (mut reader, mut fds) = (RequestReader::new(Limits::default()), Vec::new());
        let (mut protocol, mut id) = (String::new(), String::new());
        loop {
            match reader.next_event().unwrap() {
                RequestEvent::Head(head) => {
                    let value = head.header("x-aifo-proto").unwrap();
                    protocol = String::from_utf8(value.to_vec()).unwrap();
                    let value = head.header("x-aifo-exec-id").unwrap();
                    id = String::from_utf8(value.to_vec()).unwrap();
                }
                RequestEvent::Body(body) => {
                    let frames = FrameReader::for_client();
                    return ClientSession { socket, protocol, id, body, fds, frames };
                }
                _ => {
                    let mut buffer = [0; 4096];
                    let received = loop {
                        match receive_with_fds(socket.as_fd(), &mut buffer, 3) {
                            Err(Errno::EAGAIN) => wait(&socket),
                            received => break received.unwrap(),
                        }
                    };
                    assert!(received.bytes > 0, "the request is truncated");
                    fds.extend(received.fds);
                    reader.receive(&buffer[..received.bytes]);
                }
            }
        }
    }
}

/// The server side of one call.
#[derive(Debug)]
pub(crate) struct ClientSession {
    socket: UnixStream,
    pub(crate) protocol: String,
    pub(crate) id: String,
    pub(crate) body: Vec<u8>,
    /// The descriptors that were passed.
    pub(crate) fds: Vec<OwnedFd>,
    frames: FrameReader,
}

impl ClientSession {
    pub(crate) fn request(&self) -> ExecRequest {
        parse_invocation(&self.body, ExecId::parse(b"e1").unwrap()).unwrap()
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.socket.write_all(&bytes).unwrap();
    }

    /// Sends `101` and `Started`.
    pub(crate) fn start(&mut self, stdio: [Stdio; 3]) {
        let mut bytes = Vec::new();
        encode_upgrade_head(&mut bytes, None);
        Frame::Started { serial: 1, pid: 2, stdio }.encode(&mut bytes);
        self.socket.write_all(&bytes).unwrap();
    }

    /// Closes the passed descriptors and sends `Exit`.
    pub(crate) fn end(&mut self, ending: Ending) {
        self.fds.clear();
        let exit =
            Exit { ending, cancelled: None, note: None, taken: 0, usage: ResourceUsage::default() };
        self.send(&Frame::Exit { serial: 1, exit });
    }

    /// Reads a frame and compares it.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &Frame<'_>) {
        self.fill();
        assert_eq!(self.frames.next_frame().unwrap().as_ref(), Some(expected));
    }

    /// Reads `count` bytes of a stream, and no other frame.
    #[track_caller]
    pub(crate) fn data(&mut self, wanted: Stream, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            self.fill();
            match self.frames.next_frame().unwrap() {
                Some(Frame::Data { stream, data }) if stream == wanted => all.extend(data),
                other => panic!("{other:?} after {} bytes", all.len()),
            }
        }
        all
    }

    /// Reads until a frame is complete.
    fn fill(&mut self) {
        loop {
            let mut probe = self.frames_so_far();
            if probe.next_frame().unwrap().is_some() {
                return;
            }
            let mut buffer = [0; 4096];
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the shim closed the connection");
            self.frames.receive(&buffer[..count]);
        }
    }

    /// Returns a copy of the frame reader, to look ahead.
    fn frames_so_far(&mut self) -> FrameReader {
        let mut reader = FrameReader::for_client();
        reader.receive(self.frames.buffer().as_slice());
        reader
    }
}

/// Waits until a condition holds, for 20 s at most.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(2));
    }
}

fn wait(socket: &UnixStream) {
    let mut watched = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut watched, PollTimeout::NONE).unwrap();
}
