//! Runs a call and observes it until nothing of it is left.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Child, Command, Stdio};
use std::thread;

use aifo_tests::{Collector, Terminal, eventually, is_stopped};

use crate::native::invocation::{Invocation, Output, Starts, Stdin, Step};
use crate::native::observation::{Ending, Observation};
use crate::native::place::{Mode, Place};

/// Runs the call; [`Ending::Stuck`] if it does not end.
pub(crate) fn observe(
    place: &Place,
    invocation: &Invocation,
    mode: Mode,
    number: usize,
) -> Observation {
    let caller = place.caller(invocation, mode, number);
    let run = || match invocation.output {
        Output::Terminal => on_terminal(caller, &invocation.steps, mode),
        _ => on_streams(caller, invocation),
    };
    let mut observation = panic::catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|why| Observation::new(Ending::Stuck(message(why.as_ref()))));
    if invocation.starts == Starts::No {
        let said = !observation.stderr.is_empty();
        observation.stderr = said.to_string().into_bytes();
    }
    observation.add_files("", &place.inside(number));
    observation.add_files("outside/", &place.outside(number));
    observation
}

fn on_streams(mut caller: Command, invocation: &Invocation) -> Observation {
    let mut input = Input::of(&mut caller, &invocation.stdin);
    let (stdout, stderr) = outputs(&mut caller, invocation.output);
    let mut child = Ended(caller.spawn().expect("there is a shell"));
    // It holds copies of the child's ends.
    drop(caller);
    input.begin();
    for step in &invocation.steps {
        take(step, child.0.id(), &|| stdout.bytes(), &mut |bytes| input.feed(bytes));
    }
    let mut status = None;
    eventually("the call has ended", || {
        status = child.0.try_wait().expect("try_wait works on a child");
        status.is_some()
    });
    let status = status.expect("the loop ends with a status");
    drop(input);
    let ending = match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed(signal.unwrap_or_default()),
    };
    let mut observation = Observation::new(ending);
    observation.core = status.core_dumped();
    observation.stdout = collected(stdout);
    observation.stderr = stderr.map(collected).unwrap_or_default();
    observation
}

fn on_terminal(caller: Command, steps: &[Step], mode: Mode) -> Observation {
    let terminal = Terminal::new();
    let before = modes(&terminal);
    let process = terminal.start(&caller);
    let pid = process.pid().cast_unsigned();
    for step in steps {
        if *step == Step::Raw {
            if mode != Mode::Native {
                eventually("the shim reads keys", || modes(&terminal) != before);
            }
            continue;
        }
        let type_in = &mut |bytes: Option<&str>| terminal.press(bytes.unwrap_or("\x04"));
        take(step, pid, &|| terminal.shown().into_bytes(), type_in);
    }
    let ending = match process.finish() {
        Ok(code) => Ending::Exited(code),
        Err(signal) => Ending::Killed(signal),
    };
    let modes_are_back = modes(&terminal) == before;
    // All earlier output has been collected when this arrives.
    const END: &str = "<over>";
    Command::new("/bin/echo").arg(END).stdout(terminal.stdio()).status().expect("there is an echo");
    terminal.expect(&format!("{END}\r\n"));
    let mut observation = Observation::new(ending);
    observation.stdout = terminal.shown().into_bytes();
    observation.report.insert("modes_are_back".to_owned(), modes_are_back.to_string());
    observation
}

fn modes(terminal: &Terminal) -> Vec<u8> {
    let mut stty = Command::new("/bin/stty");
    stty.arg("-g").stdin(terminal.stdio()).output().expect("there is a stty").stdout
}

/// Runs one step; an empty `feed` closes the input.
fn take(step: &Step, pid: u32, shown: &dyn Fn() -> Vec<u8>, feed: &mut dyn FnMut(Option<&str>)) {
    match step {
        Step::Expect(text) => eventually(&format!("the output holds {text:?}"), || {
            shown().windows(text.len()).any(|part| part == text.as_bytes())
        }),
        // Shells also know real-time signals by their number.
        Step::Signal(number) => {
            let kill = format!("kill -{number} {pid}");
            Command::new("/bin/sh").args(["-c", &kill]).status().expect("there is a shell");
        }
        Step::Stopped => {
            eventually("it has been stopped", || is_stopped(pid.cast_signed()));
        }
        Step::Raw => {}
        Step::Feed(text) => feed(Some(text)),
        Step::Close => feed(None),
    }
}

/// The caller's stdin: the remaining bytes and the writing end.
struct Input {
    bytes: Vec<u8>,
    end: Option<Sink>,
}

enum Sink {
    /// Kept open.
    Open(File),
    Pipe(File),
    Socket(UnixStream),
    Inet(TcpStream),
}

impl Input {
    fn of(caller: &mut Command, stdin: &Stdin) -> Self {
        let none = Vec::new();
        let (end, stdio, bytes) = match stdin {
            Stdin::Null => (None, Stdio::null(), &none),
            Stdin::Pipe(bytes) => {
                let (reader, writer) = io::pipe().expect("there are descriptors");
                (Some(Sink::Pipe(OwnedFd::from(writer).into())), reader.into(), bytes)
            }
            Stdin::Open => {
                let (reader, writer) = io::pipe().expect("there are descriptors");
                (Some(Sink::Open(OwnedFd::from(writer).into())), reader.into(), &none)
            }
            Stdin::Socket(bytes) => {
                let (theirs, ours) = UnixStream::pair().expect("there are descriptors");
                (Some(Sink::Socket(ours)), OwnedFd::from(theirs).into(), bytes)
            }
            Stdin::Inet(bytes) => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
                let address = listener.local_addr().expect("it listens");
                let ours = TcpStream::connect(address).expect("it listens");
                let (theirs, _) = listener.accept().expect("a client has connected");
                (Some(Sink::Inet(ours)), OwnedFd::from(theirs).into(), bytes)
            }
        };
        caller.stdin(stdio);
        Input { bytes: bytes.clone(), end }
    }

    /// Writes the bytes and closes, in a thread. A tool that does not read everything breaks the
    /// pipe, which is no error.
    fn begin(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        match self.end.take() {
            None => {}
            Some(Sink::Open(pipe)) => self.end = Some(Sink::Open(pipe)),
            Some(Sink::Pipe(mut pipe)) => {
                thread::spawn(move || pipe.write_all(&bytes));
            }
            Some(Sink::Socket(mut socket)) => {
                thread::spawn(move || {
                    let _ = socket.write_all(&bytes);
                    let _ = socket.shutdown(Shutdown::Write);
                });
            }
            Some(Sink::Inet(mut socket)) => {
                thread::spawn(move || {
                    let _ = socket.write_all(&bytes);
                    let _ = socket.shutdown(Shutdown::Write);
                });
            }
        }
    }

    fn feed(&mut self, text: Option<&str>) {
        match (&mut self.end, text) {
            (Some(Sink::Open(pipe)), Some(text)) => {
                pipe.write_all(text.as_bytes()).expect("the tool still reads");
            }
            _ => self.end = None,
        }
    }
}

fn outputs(caller: &mut Command, output: Output) -> (Collector, Option<Collector>) {
    if output == Output::Sockets {
        let pair = || UnixStream::pair().expect("there are descriptors");
        let ((out, their_out), (err, their_err)) = (pair(), pair());
        caller.stdout(OwnedFd::from(their_out)).stderr(OwnedFd::from(their_err));
        return (Collector::of(out), Some(Collector::of(err)));
    }
    let (out, their_out) = io::pipe().expect("there are descriptors");
    if output == Output::Merged {
        caller.stderr(their_out.try_clone().expect("there are descriptors")).stdout(their_out);
        return (Collector::of(out), None);
    }
    let (err, their_err) = io::pipe().expect("there are descriptors");
    caller.stdout(their_out).stderr(their_err);
    (Collector::of(out), Some(Collector::of(err)))
}

/// Returns a stream's output once all writers have closed.
fn collected(stream: Collector) -> Vec<u8> {
    eventually("all writers have closed", || stream.has_ended());
    stream.bytes()
}

/// A child that is killed on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // No-ops after a wait: std remembers that the child is reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn message(why: &(dyn std::any::Any + Send)) -> String {
    let text = why.downcast_ref::<String>().cloned();
    text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
