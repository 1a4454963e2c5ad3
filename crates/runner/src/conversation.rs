//! What a client and its tool say to each other: frames on one side, pipes and a pseudo terminal on
//! the other (`spec/exec3.md#frames`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use aifo_process::resize;
use aifo_wire::{Frame, Stream};
use nix::sys::epoll::EpollFlags;

use crate::client::Client;
use crate::data_frame::DataFrame;
use crate::lane::{Lane, Reading};
use crate::poller::{Poller, Port};

/// The client's connection, if it was handed to us, and our ends of the tool's streams.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// `None` once all was told, or the client has left.
    client: Option<Client>,
    /// What the client hears before all else, until it has.
    greeting: Vec<u8>,
    lanes: Vec<Lane>,
    /// The tool runs. Before that there is nothing to be said, and nothing to be heard.
    open: bool,
    /// The client left, or broke the protocol, which comes to the same; nobody has acted on it yet.
    lost: bool,
}

impl Conversation {
    /// A conversation with a client that is greeted first, or with nobody.
    pub(crate) fn new(client: Option<(Client, Vec<u8>)>, lanes: Vec<Lane>) -> Self {
        let (client, greeting) = client.unzip();
        let greeting = greeting.unwrap_or_default();
        Conversation { client, greeting, lanes, open: false, lost: false }
    }

    /// The tool runs.
    pub(crate) fn open(&mut self) {
        self.open = true;
    }

    /// Whether somebody listens.
    pub(crate) fn is_attended(&self) -> bool {
        self.client.is_some()
    }

    /// Whether the tool has streams that we carry.
    pub(crate) fn carries(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Whether the client has left since this was last asked.
    pub(crate) fn was_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// An fd of this conversation, and what it waits for there.
    pub(crate) fn port(&self, port: Port) -> Option<(BorrowedFd<'_>, EpollFlags)> {
        if !self.open {
            return None;
        }
        match port {
            Port::Monitor => None,
            Port::Client => {
                let client = self.client.as_ref()?;
                Some((client.socket()?, flags(true, client.is_blocked())))
            }
            Port::Lane(stream) => {
                let mut open = self.lanes.iter().filter(|lane| !lane.is_closed());
                let lane = open.find(|lane| lane.stream == stream)?;
                // A client that takes no more stops the tool's own writes, in the end.
                let read = match &self.client {
                    Some(client) => !client.is_blocked() && lane.wants_to_read(),
                    None => lane.has_output(),
                };
                Some((lane.as_fd(), flags(read, lane.wants_to_write())))
            }
        }
    }

    /// Tells the client that the tool runs, once, and then whatever else is to be told.
    pub(crate) fn greet(&mut self, started: &Frame<'_>, then: Option<&Frame<'_>>) {
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
        self.send(Client::flush);
    }

    fn send(&mut self, send: impl FnOnce(&mut Client) -> io::Result<()>) {
        if let Some(client) = &mut self.client {
            self.lost |= send(client).is_err();
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
    pub(crate) fn listen(&mut self) -> Vec<u8> {
        let mut signals = Vec::new();
        let Some(client) = self.client.as_mut().filter(|_| self.open) else { return signals };
        let open = client.fill().unwrap_or(false);
        loop {
            let obeyed = match client.next_frame() {
                Ok(None) => {
                    self.lost |= !open;
                    break;
                }
                Ok(Some(Frame::Signal { number })) => {
                    signals.push(number);
                    true
                }
                Ok(Some(frame)) => obey(&mut self.lanes, &frame),
                Err(_) => false,
            };
            if !obeyed {
                self.lost = true;
                break;
            }
        }
        self.hand_on();
        signals
    }

    /// Hands what the client sent to the tool, and grants more.
    pub(crate) fn hand_on(&mut self) {
        for lane in &mut self.lanes {
            let stream = lane.stream;
            let handed_on = lane.hand_on();
            let Some(client) = &mut self.client else { continue };
            if let Some(bytes) = handed_on.grant {
                self.lost |= client.send(&Frame::Credit { stream, bytes }).is_err();
            }
            if handed_on.refused {
                self.lost |= client.send(&Frame::Closed { stream }).is_err();
            }
        }
    }

    /// The tool printed something, or closed its end.
    pub(crate) fn carry(&mut self, stream: Stream, frame: &mut DataFrame) {
        // An error of a pipe that the tool reads from is told by the next write.
        let Some(lane) = lane(&mut self.lanes, stream).filter(|lane| lane.has_output()) else {
            return;
        };
        let open = match &mut self.client {
            // What nobody waits for is thrown away.
            None => lane.read_unseen(frame),
            // Since we were told that there is something to read.
            Some(client) if client.is_blocked() => true,
            Some(client) => match lane.read(frame) {
                Reading::Nothing => true,
                Reading::End => false,
                Reading::Frame(frame) => {
                    self.lost |= client.send_encoded(frame).is_err();
                    true
                }
            },
        };
        if !open {
            self.lanes.retain(|lane| lane.stream != stream);
            // Whoever reads there at the client's side is to see the end as well. A terminal has none.
            if stream != Stream::Terminal {
                self.send(|client| client.send(&Frame::Closed { stream }));
            }
        }
    }

    /// The tool has ended: no more than what stands in its pipes is still its own.
    pub(crate) fn tool_ended(&mut self) {
        self.lanes.iter_mut().for_each(Lane::tool_ended);
    }

    /// Delivers what a tool that has ended still owes, as far as the client takes it. `true` if
    /// nothing is owed any more.
    pub(crate) fn deliver_rest(&mut self, frame: &mut DataFrame) -> bool {
        // Without a client nothing is delivered, and whoever holds the other end may hold it for long.
        while self.client.is_some() && !self.lost && self.is_clear() {
            let deliverable = |lane: &&Lane| lane.owes() && lane.wants_to_read();
            let Some(lane) = self.lanes.iter().find(deliverable) else { break };
            self.carry(lane.stream, frame);
        }
        self.client.is_none() || self.lost || !self.lanes.iter().any(Lane::owes) && self.is_clear()
    }

    /// Nothing waits for room on the client's connection.
    pub(crate) fn is_clear(&self) -> bool {
        self.client.as_ref().is_none_or(|client| !client.is_blocked())
    }

    /// Bytes that the tool has read from a relayed stdin.
    pub(crate) fn taken(&self) -> u64 {
        let stdin = self.lanes.iter().find(|lane| lane.stream == Stream::Stdin);
        stdin.map_or(0, Lane::taken)
    }

    /// The client has left: its tool's stdin is at its end, and what it prints is thrown away.
    pub(crate) fn leave(&mut self, poller: &Poller) {
        self.hang_up(poller);
        self.lanes.retain(|lane| lane.stream != Stream::Stdin);
    }

    /// All was told. What a tool left running may go on to print, unseen.
    pub(crate) fn conclude(&mut self, poller: &Poller) {
        self.hang_up(poller);
        self.lanes.retain(|lane| lane.has_output() && lane.stream != Stream::Terminal);
    }

    /// Nothing ran.
    pub(crate) fn abandon(&mut self, poller: &Poller) {
        self.hang_up(poller);
        self.lanes.clear();
    }

    fn hang_up(&mut self, poller: &Poller) {
        if let Some(client) = self.client.take() {
            client.hang_up(poller);
        }
    }
}

/// Does what a frame of the client's says about a stream. `false` if it makes no sense.
fn obey(lanes: &mut Vec<Lane>, frame: &Frame<'_>) -> bool {
    // A lane that is not there was closed while the frame was on its way.
    match frame {
        Frame::Data { stream, data } => {
            lane(lanes, *stream).is_none_or(|lane| lane.receive(data).is_ok())
        }
        Frame::Credit { stream, bytes } => {
            lane(lanes, *stream).is_none_or(|lane| lane.grant(*bytes).is_ok())
        }
        Frame::Closed { stream: Stream::Stdin } => {
            if let Some(lane) = lane(lanes, Stream::Stdin) {
                lane.end_input();
            }
            true
        }
        // A terminal's end is a character.
        Frame::Closed { stream: Stream::Terminal } => true,
        Frame::Closed { stream } => {
            // The tool's next write meets a closed pipe.
            lanes.retain(|lane| lane.stream != *stream);
            true
        }
        Frame::Resize(size) => {
            if let Some(lane) = lane(lanes, Stream::Terminal) {
                // A size that the kernel does not take is no reason to end anything.
                let _ = resize(lane.as_fd(), *size);
            }
            true
        }
        _ => false,
    }
}

fn lane(lanes: &mut [Lane], stream: Stream) -> Option<&mut Lane> {
    lanes.iter_mut().find(|lane| lane.stream == stream)
}

fn flags(input: bool, output: bool) -> EpollFlags {
    let mut flags = EpollFlags::empty();
    flags.set(EpollFlags::EPOLLIN, input);
    flags.set(EpollFlags::EPOLLOUT, output);
    flags
}
