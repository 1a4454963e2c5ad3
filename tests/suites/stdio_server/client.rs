//! A client of a stdio server; a thread reads the output.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use aifo_tests::{DEADLINE, eventually};
use serde_json::Value;

use crate::stdio_server::Framing;

/// The type of the server's stdin and stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Pipes,
    /// A unix socket each, as node gives its children.
    Sockets,
}

pub(crate) struct Client {
    child: Child,
    framing: Framing,
    input: Option<Box<dyn Write + Send>>,
    messages: Receiver<Value>,
    reader: Option<JoinHandle<()>>,
}

impl Client {
    #[track_caller]
    pub(crate) fn start(command: &mut Command, framing: Framing, stream: Stream) -> Self {
        command.stderr(Stdio::piped());
        let (child, input, output) = match stream {
            Stream::Pipes => on_pipes(command),
            Stream::Sockets => on_sockets(command),
        };
        let (sender, messages) = channel();
        let reader = thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(message) = framing.read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Client { child, framing, input: Some(input), messages, reader: Some(reader) }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    #[track_caller]
    pub(crate) fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("stdin is open");
        if let Err(error) = input.write_all(&self.framing.encode(message)) {
            panic!("the server does not read: {error}: {:?}", self.finish());
        }
    }

    /// The next message; panics after the deadline.
    #[track_caller]
    pub(crate) fn receive(&self) -> Value {
        self.messages.recv_timeout(DEADLINE).expect("the server answers")
    }

    /// The writing end, for a thread that only writes.
    pub(crate) fn take_input(&mut self) -> Box<dyn Write + Send> {
        self.input.take().expect("stdin is open")
    }

    /// Waits for the end; returns the status, the remaining messages, and stderr.
    #[track_caller]
    pub(crate) fn finish(&mut self) -> (ExitStatus, Vec<Value>, String) {
        let mut status = None;
        eventually("the server has ended", || {
            status = self.child.try_wait().expect("try_wait works on a child");
            status.is_some()
        });
        let reader = self.reader.take().expect("it ends once");
        eventually("its stdout is at its end", || reader.is_finished());
        let mut stderr = String::new();
        let printed =
            self.child.stderr.take().expect("stderr is a pipe").read_to_string(&mut stderr);
        printed.expect("stderr is text");
        (status.expect("the loop ends with a status"), self.messages.try_iter().collect(), stderr)
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // No-ops after `finish`: std remembers that the child is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Ends = (Child, Box<dyn Write + Send>, Box<dyn Read + Send>);

fn on_pipes(command: &mut Command) -> Ends {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.expect("the server starts");
    let input = child.stdin.take().expect("stdin is a pipe");
    let output = child.stdout.take().expect("stdout is a pipe");
    (child, Box::new(input), Box::new(output))
}

fn on_sockets(command: &mut Command) -> Ends {
    let pair = || std::os::unix::net::UnixStream::pair().expect("a pair can be made");
    let ((input, theirs_in), (output, theirs_out)) = (pair(), pair());
    let fd = |socket| Stdio::from(std::os::fd::OwnedFd::from(socket));
    let child = command.stdin(fd(theirs_in)).stdout(fd(theirs_out)).spawn();
    // The command keeps its descriptors until they are replaced; end of file needs all closed.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    (child.expect("the server starts"), Box::new(input), Box::new(output))
}

impl Framing {
    pub(crate) fn encode(self, message: &Value) -> Vec<u8> {
        match self {
            Framing::ContentLength => {
                let body = message.to_string();
                format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
            }
            Framing::Lines => format!("{message}\n").into_bytes(),
        }
    }

    /// The next message; `None` at the end of the stream.
    fn read(self, reader: &mut impl BufRead) -> Option<Value> {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match self {
            Framing::ContentLength => {
                let length = line.strip_prefix("Content-Length: ").expect("a head comes first");
                let mut body = vec![0; length.trim().parse::<usize>().expect("it is a number") + 2];
                reader.read_exact(&mut body).expect("a message is whole");
                let body = body.strip_prefix(b"\r\n").expect("an empty line ends the head");
                Some(serde_json::from_slice(body).expect("a message is JSON"))
            }
            Framing::Lines => Some(serde_json::from_str(&line).expect("a message is JSON")),
        }
    }
}
