//! Relays frames between a client and its tool's pipes or terminal (`spec/exec3.md#frames`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_process::resize;
use aifo_wire::{Frame, Stream};
use nix::sys::epoll::EpollFlags;

use crate::client_connection::ClientConnection;
use crate::data_frame::DataFrame;
use crate::poller::{ExecFd, Poller};
use crate::stream_pipe::{ReadOutcome, StreamPipe};

/// The client connection and the runner's ends of the tool's streams.
#[derive(Debug)]
pub(crate) struct ClientSession {
    /// `None` without a client, after `Exit`, or after the client has left.
    client: Option<ClientConnection>,
    /// Sent before `Started`; empty once sent.
    response_head: Vec<u8>,
    pipes: Vec<StreamPipe>,
    /// The tool runs. Before that, frames are neither read nor sent.
    is_started: bool,
    /// The client connection is read. Before that, only what came with the request is.
    is_watched: bool,
    /// The client left or violated the protocol; reset by [`Self::take_client_lost`].
    client_lost: bool,
}

impl ClientSession {
    pub(crate) fn new(client: Option<(ClientConnection, Vec<u8>)>, pipes: Vec<StreamPipe>) -> Self {
        let (client, response_head) = client.unzip();
        let response_head = response_head.unwrap_or_default();
        ClientSession {
            client,
            response_head,
            pipes,
            is_started: false,
            is_watched: false,
            client_lost: false,
        }
    }

    /// Begins to relay, once the tool runs.
    pub(crate) fn start(&mut self) {
        self.is_started = true;
    }

    /// Begins to read the client connection.
    pub(crate) fn watch_client(&mut self) {
        self.is_watched = true;
    }

    pub(crate) fn has_client(&self) -> bool {
        self.client.is_some()
    }

    pub(crate) fn has_streams(&self) -> bool {
        !self.pipes.is_empty()
    }

    /// Returns whether the client was lost since the last call.
    pub(crate) fn take_client_lost(&mut self) -> bool {
        std::mem::take(&mut self.client_lost)
    }

    /// Returns a descriptor and its epoll interest.
    pub(crate) fn fd(&self, fd: ExecFd) -> Option<(BorrowedFd<'_>, EpollFlags)> {
        if !self.is_started {
            return None;
        }
        match fd {
            ExecFd::Monitor => None,
            ExecFd::Client => {
                let client = self.client.as_ref().filter(|_| self.is_watched)?;
                Some((client.socket()?, interest(true, client.is_blocked())))
            }
            ExecFd::Stream(stream) => {
                let mut open = self.pipes.iter().filter(|pipe| !pipe.is_closed());
                let pipe = open.find(|pipe| pipe.stream == stream)?;
                // While the client reads nothing, the pipe fills and blocks the tool's writes.
                let read = match &self.client {
                    Some(client) => !client.is_blocked() && pipe.may_read(),
                    None => pipe.has_output(),
                };
                Some((pipe.as_fd(), interest(read, pipe.has_queued_input())))
            }
        }
    }

    /// Sends the response head and `Started`, once, followed by another frame.
    pub(crate) fn send_started(&mut self, started: &Frame<'_>, then: &[Frame<'_>]) {
        let mut bytes = std::mem::take(&mut self.response_head);
        if !bytes.is_empty() {
            started.encode(&mut bytes);
        }
        for frame in then {
            frame.encode(&mut bytes);
        }
        if !bytes.is_empty() {
            self.send(|client| client.send_encoded(&bytes));
        }
    }

    pub(crate) fn flush(&mut self) {
        self.send(ClientConnection::flush);
    }

    fn send(&mut self, send: impl FnOnce(&mut ClientConnection) -> io::Result<()>) {
        if let Some(client) = &mut self.client {
            self.client_lost |= send(client).is_err();
        }
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if let Some(client) = &mut self.client {
            client.receive(bytes);
        }
    }

    /// Ends the input of a tunnelled client.
    pub(crate) fn receive_end(&mut self) {
        if let Some(client) = &mut self.client {
            client.receive_end();
        }
    }

    /// Handles the client frames. Returns the signals it sent, in order, for the caller to
    /// deliver.
    pub(crate) fn receive_frames(&mut self) -> Vec<u8> {
        let mut signals = Vec::new();
        let Some(client) = self.client.as_mut().filter(|_| self.is_started) else { return signals };
        let open = !self.is_watched || client.fill().unwrap_or(false);
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

    /// Writes buffered input to the tool, and grants credit to the client.
    pub(crate) fn forward_input(&mut self) {
        for pipe in &mut self.pipes {
            let stream = pipe.stream;
            let forwarded = pipe.forward_input();
            let Some(client) = &mut self.client else { continue };
            if let Some(bytes) = forwarded.grant {
                self.client_lost |= client.send(&Frame::Credit { stream, bytes }).is_err();
            }
            if forwarded.closed_by_tool {
                self.client_lost |= client.send(&Frame::Closed { stream }).is_err();
            }
        }
    }

    /// Sends one read of a stream to the client, or `Closed` at its end.
    pub(crate) fn forward_output(&mut self, stream: Stream, frame: &mut DataFrame) {
        // An error on the stdin pipe is reported by the next write.
        let Some(pipe) = find_pipe(&mut self.pipes, stream).filter(|pipe| pipe.has_output()) else {
            return;
        };
        let open = match &mut self.client {
            None => pipe.discard(frame),
            // The connection has filled up since epoll reported the pipe.
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
            // The client closes its own end in turn. A terminal has no end of file.
            if stream != Stream::Terminal {
                self.send(|client| client.send(&Frame::Closed { stream }));
            }
        }
    }

    /// Limits further output to what is in the pipes of the tool, which has ended.
    pub(crate) fn tool_ended(&mut self) {
        self.pipes.iter_mut().for_each(StreamPipe::tool_ended);
    }

    /// Sends the output that a tool left in its pipes, within the client's credit. Returns `true`
    /// when all is sent.
    pub(crate) fn drain_output(&mut self, frame: &mut DataFrame) -> bool {
        // Without a client there is nothing to send, and a background process may hold the pipe
        // open for long.
        while self.client.is_some() && !self.client_lost && self.is_flushed() {
            let deliverable = |pipe: &&StreamPipe| pipe.has_remaining_output() && pipe.may_read();
            let Some(pipe) = self.pipes.iter().find(deliverable) else { break };
            self.forward_output(pipe.stream, frame);
        }
        self.client.is_none()
            || self.client_lost
            || !self.pipes.iter().any(StreamPipe::has_remaining_output) && self.is_flushed()
    }

    /// Returns whether no bytes are pending for the client.
    pub(crate) fn is_flushed(&self) -> bool {
        self.client.as_ref().is_none_or(|client| !client.is_blocked())
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        let is_input = |pipe: &&StreamPipe| matches!(pipe.stream, Stream::Stdin | Stream::Terminal);
        let stdin = self.pipes.iter().find(is_input);
        stdin.map_or(0, StreamPipe::bytes_read)
    }

    /// Closes the connection of a client that has left, and the tool's stdin. Output is discarded
    /// from now on.
    pub(crate) fn drop_client(&mut self, poller: &Poller) {
        self.close_client(poller);
        self.pipes.retain(|pipe| pipe.stream != Stream::Stdin);
    }

    /// Closes the client connection after `Exit`. Later output of background processes is
    /// discarded.
    pub(crate) fn finish(&mut self, poller: &Poller) {
        self.close_client(poller);
        self.pipes.retain(|pipe| pipe.has_output() && pipe.stream != Stream::Terminal);
    }

    /// Closes everything, if the tool was not started.
    pub(crate) fn close(&mut self, poller: &Poller) {
        self.close_client(poller);
        self.pipes.clear();
    }

    fn close_client(&mut self, poller: &Poller) {
        if let Some(client) = self.client.take() {
            client.close(poller);
        }
    }
}

/// Handles a frame about a stream. Returns `false` if it is invalid.
fn handle_frame(pipes: &mut Vec<StreamPipe>, frame: &Frame<'_>) -> bool {
    // Frames for a stream that was closed meanwhile are ignored.
    match frame {
        Frame::Data { stream, data } => {
            find_pipe(pipes, *stream).is_none_or(|pipe| pipe.receive(data).is_ok())
        }
        Frame::Credit { stream, bytes } => {
            find_pipe(pipes, *stream).is_none_or(|pipe| pipe.grant(*bytes).is_ok())
        }
        Frame::Closed { stream: Stream::Stdin } => {
            if let Some(pipe) = find_pipe(pipes, Stream::Stdin) {
                pipe.end_input();
            }
            true
        }
        // A terminal has no end of file; the client sends a character.
        Frame::Closed { stream: Stream::Terminal } => true,
        Frame::Closed { stream } => {
            // The tool's next write fails with EPIPE.
            pipes.retain(|pipe| pipe.stream != *stream);
            true
        }
        Frame::Resize(size) => {
            if let Some(pipe) = find_pipe(pipes, Stream::Terminal) {
                // An invalid size is ignored.
                let _ = resize(pipe.as_fd(), *size);
            }
            true
        }
        _ => false,
    }
}

fn find_pipe(pipes: &mut [StreamPipe], stream: Stream) -> Option<&mut StreamPipe> {
    pipes.iter_mut().find(|pipe| pipe.stream == stream)
}

fn interest(read: bool, write: bool) -> EpollFlags {
    let mut flags = EpollFlags::empty();
    flags.set(EpollFlags::EPOLLIN, read);
    flags.set(EpollFlags::EPOLLOUT, write);
    flags
}
