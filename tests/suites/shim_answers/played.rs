//! A scripted proxy.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::thread;

use aifo_tests::{Outcome, Scratch, binaries};

/// A proxy with fixed responses.
#[derive(Debug)]
pub(crate) struct PlayedProxy {
    scratch: Scratch,
    listener: UnixListener,
}

/// A shim request, up to the end of its declared body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl PlayedProxy {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let link = scratch.path().join("make");
        std::os::unix::fs::symlink(&binaries().shim, link)
            .expect("the scratch directory is writable");
        let socket = scratch.path().join("front.sock");
        let listener = UnixListener::bind(socket).expect("the scratch directory is writable");
        PlayedProxy { scratch, listener }
    }

    /// `make "a b c"`, as one of this proxy's session.
    pub(crate) fn shim(&self) -> Command {
        let dir = self.scratch.path();
        let mut shim = Command::new(dir.join("make"));
        shim.env_clear()
            .env("AIFO_TOOLEEXEC_URL", format!("unix://{}/front.sock", dir.display()))
            .env("AIFO_TOOLEEXEC_TOKEN", "s3cret")
            .env("AIFO_EXEC_ID", "e1")
            .args(["a", "b c"])
            .current_dir(dir);
        shim
    }

    /// Runs a shim to its end. Each response goes to a request on its own connection, which is then
    /// closed. Panics unless the number of requests is exact.
    #[track_caller]
    pub(crate) fn play(&self, shim: &mut Command, answers: &[&[u8]]) -> (Outcome, Vec<Request>) {
        let (outcome, requests) = thread::scope(|scope| {
            let answer = |answer: &&[u8]| {
                let (request, mut stream) = self.accept();
                // The shim may have disconnected.
                let _ = stream.write_all(answer);
                request
            };
            let proxy = scope.spawn(move || answers.iter().map(answer).collect());
            let outcome = Outcome::of(shim);
            (outcome, proxy.join().expect("the proxy reads the requests"))
        });
        self.listener.set_nonblocking(true).expect("a listener can be polled");
        let more = self.listener.accept().map(|_| ()).map_err(|e| e.kind());
        self.listener.set_nonblocking(false).expect("a listener can be polled");
        assert_eq!(more, Err(ErrorKind::WouldBlock), "nothing else is asked");
        (outcome, requests)
    }

    /// The next connection, with its request.
    pub(crate) fn accept(&self) -> (Request, UnixStream) {
        let (mut stream, _) = self.listener.accept().expect("the shim connects");
        (Request::read(&mut stream), stream)
    }
}

impl Request {
    fn read(stream: &mut UnixStream) -> Self {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            if let Some(request) = Request::whole(&bytes) {
                return request;
            }
            let count = stream.read(&mut buffer).expect("the shim sends");
            assert!(count > 0, "the request is cut off");
            bytes.extend_from_slice(&buffer[..count]);
        }
    }

    /// `None` if incomplete.
    fn whole(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).expect("a head is text");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.expect("a shim declares the length").parse().expect("it is a number");
        let body = bytes[end + 4..].get(..length)?.to_vec();
        Some(Request { head, body })
    }

    /// Returns whether the head contains this line.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.lines().any(|found| found == line)
    }
}
