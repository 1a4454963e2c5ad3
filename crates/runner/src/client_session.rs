//! What a client and its tool say to each other: frames on one side, pipes and a pseudo terminal on
//! the other (`spec/exec3.md#frames`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_process::resize;
use aifo_wire::{Frame, Stream};
use nix::sys::epoll::EpollFlags;

use crate::client_connection::ClientConnection;
use crate::data_frame::DataFrame;
use crate::poller::{ExecFd, Poller};
use crate::stream_pipe::{ReadOutcome, StreamPipe};

/// The client's connection, if it was handed to us, and our ends of the tool's streams.
#[derive(Debug)]
pub(crate) struct ClientSession {
    /// `None` once all was told, or the client has left.
    client: Option<ClientConnection>,
    /// What the client hears before all else, until it has.
    greeting: Vec<u8>,
    pipes: Vec<StreamPipe>,
    /// The tool runs. Before that there is nothing to be said, and nothing to be heard.
    is_started: bool,
    /// The client left, or broke the protocol, which comes to the same; nobody has acted on it yet.
    client_lost: bool,
}

impl ClientSession {
    /// A session with a client that is greeted first, or with nobody.
    pub(crate) fn new(client: Option<(ClientConnection, Vec<u8>)>, pipes: Vec<StreamPipe>) -> Self {
        let (client, greeting) = client.unzip();
        let greeting = greeting.unwrap_or_default();
        ClientSession { client, greeting, pipes, is_started: false, client_lost: false }
    }

    /// The tool runs.
    pub(crate) fn start(&mut self) {
        self.is_started = true;
    }

    /// Whether somebody listens.
    pub(crate) fn has_client(&self) -> bool {
        self.client.is_some()
    }

    /// Whether the tool has streams that we carry.
    pub(crate) fn has_streams(&self) -> bool {
        !self.pipes.is_empty()
    }

    /// Whether the client has left since this was last asked.
    pub(crate) fn take_client_lost(&mut self) -> bool {
        std::mem::take(&mut self.client_lost)
    }

    /// An fd of this session, and what it waits for there.
    pub(crate) fn fd(&self, fd: ExecFd) -> Option<(BorrowedFd<'_>, EpollFlags)> {
        if !self.is_started {
            return None;
        }
        match fd {
            ExecFd::Monitor => None,
            ExecFd::Client => {
                let client = self.client.as_ref()?;
                Some((client.socket()?, flags(true, client.is_blocked())))
            }
            ExecFd::Stream(stream) => {
                let mut open = self.pipes.iter().filter(|pipe| !pipe.is_closed());
                let pipe = open.find(|pipe| pipe.stream == stream)?;
                // A client that takes no more stops the tool's own writes, in the end.
                let read = match &self.client {
                    Some(client) => !client.is_blocked() && pipe.wants_to_read(),
                    None => pipe.has_output(),
                };
                Some((pipe.as_fd(), flags(read, pipe.wants_to_write())))
            }
        }
    }

    /// Tells the client that the tool runs, once, and then whatever else is to be told.
    pub(crate) fn send_started(&mut self, started: &Frame<'_>, then: Option<&Frame<'_>>) {
        let mut bytes = std::mem::take(&mut self.greeting);
        if !bytes.is_empty() {
            started.encode(&mut bytes);
        }
        if let Some(frame) = then {
            frame.encode(&mut bytes);
        }
        if !bytes.is_empty() {
            self.send(|client| client.send_encoded(&bytes));
        }
    }

    /// Sends what waits for room.
    pub(crate) fn flush(&mut self) {
        self.send(ClientConnection::flush);
    }

    fn send(&mut self, send: impl FnOnce(&mut ClientConnection) -> io::Result<()>) {
        if let Some(client) = &mut self.client {
            self.client_lost |= send(client).is_err();
        }
    }

    /// Takes what the client sent, where its bytes come by way of the proxy.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if let Some(client) = &mut self.client {
            client.receive(bytes);
        }
    }

    /// The client has left, where it is the proxy that says so.
    pub(crate) fn receive_end(&mut self) {
        if let Some(client) = &mut self.client {
            client.receive_end();
        }
    }

    /// Takes the client's frames. What concerns the tool as a process is left to the caller: the
    /// numbers of the signals it sent, in order.
    pub(crate) fn receive_frames(&mut self) -> Vec<u8> {
        let mut signals = Vec::new();
        let Some(client) = self.client.as_mut().filter(|_| self.is_started) else { return signals };
        let open = client.fill().unwrap_or(false);
        loop {
            let is_valid = match client.next_frame() {
                Ok(None) => {
                    self.client_lost |= !open;
                    break;
                }
                Ok(Some(Frame::Signal { number })) => {
                    signals.push(number);
                    true
                }
                Ok(Some(frame)) => handle_frame(&mut self.pipes, &frame),
                Err(_) => false,
            };
            if !is_valid {
                self.client_lost = true;
                break;
            }
        }
        self.forward_input();
        signals
    }

    /// Hands what the client sent to the tool, and grants more.
    pub(crate) fn forward_input(&mut self) {
        for pipe in &mut self.pipes {
            let stream = pipe.stream;
            let forwarded = pipe.forward_input();
            let Some(client) = &mut self.client else { continue };
            if let Some(bytes) = forwarded.grant {
                self.client_lost |= client.send(&Frame::Credit { stream, bytes }).is_err();
            }
            if forwarded.refused {
                self.client_lost |= client.send(&Frame::Closed { stream }).is_err();
            }
        }
    }

    /// The tool printed something, or closed its end.
    pub(crate) fn forward_output(&mut self, stream: Stream, frame: &mut DataFrame) {
        // An error of a pipe that the tool reads from is told by the next write.
        let Some(pipe) = pipe(&mut self.pipes, stream).filter(|pipe| pipe.has_output()) else {
            return;
        };
        let open = match &mut self.client {
            // What nobody waits for is thrown away.
            None => pipe.discard(frame),
            // Since we were told that there is something to read.
            Some(client) if client.is_blocked() => true,
            Some(client) => match pipe.read(frame) {
                ReadOutcome::Nothing => true,
                ReadOutcome::End => false,
                ReadOutcome::Frame(frame) => {
                    self.client_lost |= client.send_encoded(frame).is_err();
                    true
                }
            },
        };
        if !open {
            self.pipes.retain(|pipe| pipe.stream != stream);
            // Whoever reads there at the client's side is to see the end as well. A terminal has none.
            if stream != Stream::Terminal {
                self.send(|client| client.send(&Frame::Closed { stream }));
            }
        }
    }

    /// The tool has ended: no more than what stands in its pipes is still its own.
    pub(crate) fn tool_ended(&mut self) {
        self.pipes.iter_mut().for_each(StreamPipe::tool_ended);
    }

    /// Delivers what a tool that has ended still owes, as far as the client takes it. `true` if
    /// nothing is remaining any more.
    pub(crate) fn drain_output(&mut self, frame: &mut DataFrame) -> bool {
        // Without a client nothing is delivered, and whoever holds the other end may hold it for long.
        while self.client.is_some() && !self.client_lost && self.is_flushed() {
            let deliverable =
                |pipe: &&StreamPipe| pipe.has_remaining_output() && pipe.wants_to_read();
            let Some(pipe) = self.pipes.iter().find(deliverable) else { break };
            self.forward_output(pipe.stream, frame);
        }
        self.client.is_none()
            || self.client_lost
            || !self.pipes.iter().any(StreamPipe::has_remaining_output) && self.is_flushed()
    }

    /// Nothing waits for room on the client's connection.
    pub(crate) fn is_flushed(&self) -> bool {
        self.client.as_ref().is_none_or(|client| !client.is_blocked())
    }

    /// Bytes that the tool has read from a relayed stdin.
    pub(crate) fn bytes_read(&self) -> u64 {
        let stdin = self.pipes.iter().find(|pipe| pipe.stream == Stream::Stdin);
        stdin.map_or(0, StreamPipe::bytes_read)
    }

    /// The client has left: its tool's stdin is at its end, and what it prints is thrown away.
    pub(crate) fn drop_client(&mut self, poller: &Poller) {
        self.close_client(poller);
        self.pipes.retain(|pipe| pipe.stream != Stream::Stdin);
    }

    /// All was told. What a tool left running may go on to print, unseen.
    pub(crate) fn finish(&mut self, poller: &Poller) {
        self.close_client(poller);
        self.pipes.retain(|pipe| pipe.has_output() && pipe.stream != Stream::Terminal);
    }

    /// Nothing ran.
    pub(crate) fn close(&mut self, poller: &Poller) {
        self.close_client(poller);
        self.pipes.clear();
    }

    fn close_client(&mut self, poller: &Poller) {
        if let Some(client) = self.client.take() {
            client.close_client(poller);
        }
    }
}

/// Does what a frame of the client's says about a stream. `false` if it makes no sense.
fn handle_frame(pipes: &mut Vec<StreamPipe>, frame: &Frame<'_>) -> bool {
    // A pipe that is not there was closed while the frame was on its way.
    match frame {
        Frame::Data { stream, data } => {
            pipe(pipes, *stream).is_none_or(|pipe| pipe.receive(data).is_ok())
        }
        Frame::Credit { stream, bytes } => {
            pipe(pipes, *stream).is_none_or(|pipe| pipe.grant(*bytes).is_ok())
        }
        Frame::Closed { stream: Stream::Stdin } => {
            if let Some(pipe) = pipe(pipes, Stream::Stdin) {
                pipe.end_input();
            }
            true
        }
        // A terminal's end is a character.
        Frame::Closed { stream: Stream::Terminal } => true,
        Frame::Closed { stream } => {
            // The tool's next write meets a closed pipe.
            pipes.retain(|pipe| pipe.stream != *stream);
            true
        }
        Frame::Resize(size) => {
            if let Some(pipe) = pipe(pipes, Stream::Terminal) {
                // A size that the kernel does not take is no reason to end anything.
                let _ = resize(pipe.as_fd(), *size);
            }
            true
        }
        _ => false,
    }
}

fn pipe(pipes: &mut [StreamPipe], stream: Stream) -> Option<&mut StreamPipe> {
    pipes.iter_mut().find(|pipe| pipe.stream == stream)
}

fn flags(input: bool, output: bool) -> EpollFlags {
    let mut flags = EpollFlags::empty();
    flags.set(EpollFlags::EPOLLIN, input);
    flags.set(EpollFlags::EPOLLOUT, output);
    flags
}
