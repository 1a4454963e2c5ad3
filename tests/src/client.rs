//! A protocol client of version 3.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

use crate::frames::{Exit, Frame, credit, kind, number, stream};
use crate::{Address, Answer, DEADLINE, Invocation, Session, Stdio};

/// A connection to a proxy, later to a runner. Dropping it disconnects.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    received: Vec<u8>,
}

/// The content of `Started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The tool pid in this machine's pid namespace.
    pub pid: i32,
    /// The transports of 0, 1 and 2, by their codes.
    pub stdio: [u8; 3],
}

/// The pid of a tool that has already exited: larger than any that the kernel assigns.
const NO_SUCH_PID: i32 = i32::MAX;

/// The frames after `Started`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The received stdout.
    pub stdout: Vec<u8>,
    /// The received stderr.
    pub stderr: Vec<u8>,
    /// The terminal output.
    pub screen: Vec<u8>,
    /// The tool's ending; `None` if the connection ended first.
    pub exit: Option<Exit>,
}

impl Finished {
    /// Stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The exit code, or the signal that ended the tool. Panics if there was no `Exit`.
    #[track_caller]
    pub fn ending(&self) -> Result<u8, u8> {
        self.exit.unwrap_or_else(|| panic!("no exit frame: {self:?}")).ending
    }
}

impl Client {
    /// Connects to a unix endpoint.
    #[track_caller]
    pub fn connect(session: &Session) -> Self {
        let Address::Unix(path) = session.address() else { panic!("the session is on TCP") };
        let socket = UnixStream::connect(path).expect("the proxy listens");
        socket.set_read_timeout(Some(DEADLINE)).expect("a deadline can be set");
        socket.set_write_timeout(Some(DEADLINE)).expect("a deadline can be set");
        Client { socket, received: Vec::new() }
    }

    /// Connects and sends a request as the shim does: in one write, with the descriptors.
    #[track_caller]
    pub fn call(session: &Session, invocation: Invocation) -> Self {
        let mut client = Client::connect(session);
        let fds: Vec<_> = invocation.stdio.iter().filter_map(passed).collect();
        client.send_with(invocation.request(session).encode(), &fds);
        // `invocation` is dropped here, with its copies of the passed descriptors.
        client
    }

    /// Starts a tool.
    #[track_caller]
    pub fn start(session: &Session, invocation: Invocation) -> (Self, Started) {
        let mut client = Client::call(session, invocation);
        let mut started = client.started();
        started.pid = session.living_pid(started.pid).unwrap_or(NO_SUCH_PID);
        (client, started)
    }

    /// Runs a tool to its end, without input.
    #[track_caller]
    pub fn run(session: &Session, invocation: Invocation) -> Finished {
        Client::start(session, invocation).0.finish()
    }

    /// Sends bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes).expect("the peer accepts the bytes");
        self
    }

    /// Sends bytes, unless the peer has closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.socket.write_all(bytes.as_ref())
    }

    /// Sends bytes with descriptors on the first one.
    #[track_caller]
    pub fn send_with(&mut self, bytes: impl AsRef<[u8]>, fds: &[BorrowedFd<'_>]) -> &mut Self {
        let bytes = bytes.as_ref();
        let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
        let (socket, slices) = (self.socket.as_raw_fd(), [IoSlice::new(bytes)]);
        let sent = sendmsg::<UnixAddr>(socket, &slices, rights, MsgFlags::MSG_NOSIGNAL, None);
        self.send(&bytes[sent.expect("the proxy accepts the bytes")..])
    }

    /// Shuts down the sending half.
    pub fn half_close(&mut self) -> &mut Self {
        // Fails if the peer has closed, which is fine.
        let _ = self.socket.shutdown(Shutdown::Write);
        self
    }

    /// Reads the 101 response's head, then `Started`.
    #[track_caller]
    pub fn started(&mut self) -> Started {
        let end = b"\r\n\r\n";
        while !self.received.windows(end.len()).any(|window| window == end) {
            assert!(self.read_more(4096) > 0, "no answer: {:?}", self.received.escape_ascii());
        }
        let found = self.received.windows(end.len()).position(|window| window == end);
        let rest = self.received.split_off(found.expect("it has come") + end.len());
        let head = std::mem::replace(&mut self.received, rest);
        let text = String::from_utf8_lossy(&head);
        assert!(text.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{text}");
        let (kind, payload) = self.any_frame(4096).expect("a frame after the head");
        let [_, _, _, _, a, b, c, d, stdio @ ..] = payload.as_slice() else { panic!("too short") };
        assert_eq!(kind, kind::STARTED);
        let pid = i32::try_from(number([*a, *b, *c, *d])).expect("a process id");
        Started { pid, stdio: stdio.try_into().expect("three standard descriptors") }
    }

    /// Reads the response of a call that does not start.
    #[track_caller]
    pub fn answer(mut self) -> Answer {
        while self.read_more(4096) > 0 {}
        let raw = &self.received;
        Answer::parse(raw).unwrap_or_else(|why| panic!("{why}: {:?}", raw.escape_ascii()))
    }

    /// The next frame; `None` at the end of the connection.
    #[track_caller]
    pub fn frame(&mut self) -> Option<Frame> {
        self.frame_by(64 * 1024)
    }

    /// The next frame, read in pieces of at most `piece` bytes.
    #[track_caller]
    pub fn frame_by(&mut self, piece: usize) -> Option<Frame> {
        let (kind, payload) = self.any_frame(piece)?;
        Some(Frame::read(kind, &payload))
    }

    /// Grants credit until the output contains `text`; returns all output so far.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        loop {
            let so_far = String::from_utf8_lossy(&shown);
            if so_far.contains(text) {
                return so_far.into_owned();
            }
            match self.frame() {
                Some(Frame::Data(stream, bytes)) => {
                    self.send(credit(stream, bytes.len()));
                    shown.extend(bytes);
                }
                Some(Frame::Credit(..)) => {}
                other => panic!("{other:?} before {text:?}: {so_far}"),
            }
        }
    }

    /// Grants credit and reads until the end of the connection.
    #[track_caller]
    pub fn finish(mut self) -> Finished {
        let (stdout, stderr, screen) = (Vec::new(), Vec::new(), Vec::new());
        let mut finished = Finished { stdout, stderr, screen, exit: None };
        while let Some(frame) = self.frame() {
            assert_eq!(finished.exit, None, "the ending is the last frame, not {frame:?}");
            match frame {
                Frame::Data(stream, bytes) => {
                    // Fails if the tool and the connection have ended.
                    let _ = self.try_send(credit(stream, bytes.len()));
                    match stream {
                        stream::STDOUT => finished.stdout.extend(bytes),
                        stream::STDERR => finished.stderr.extend(bytes),
                        _ => finished.screen.extend(bytes),
                    }
                }
                Frame::Exit(exit) => finished.exit = Some(exit),
                Frame::Closed(_) | Frame::Credit(..) | Frame::Stopped(..) => {}
            }
        }
        finished
    }

    #[track_caller]
    fn any_frame(&mut self, piece: usize) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some((&[kind, ref length @ ..], rest)) = self.received.split_first_chunk::<5>()
                && let Some(payload) = rest.get(..number(*length) as usize)
            {
                let payload = payload.to_vec();
                self.received.drain(..5 + payload.len());
                return Some((kind, payload));
            }
            if self.read_more(piece) == 0 {
                return None;
            }
        }
    }

    /// 0 is the end. A reset counts as the end: the last bytes were sent to a closed socket.
    #[track_caller]
    fn read_more(&mut self, piece: usize) -> usize {
        let start = self.received.len();
        self.received.resize(start + piece, 0);
        let count = loop {
            match self.socket.read(&mut self.received[start..]) {
                Ok(count) => break count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => break 0,
                Err(e) => panic!("no bytes arrive: {e}"),
            }
        };
        self.received.truncate(start + count);
        count
    }
}

fn passed(stdio: &Stdio) -> Option<BorrowedFd<'_>> {
    match stdio {
        Stdio::Passed(fd) => Some(fd.as_fd()),
        _ => None,
    }
}
