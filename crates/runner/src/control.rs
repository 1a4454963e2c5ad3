//! The control connection: the proxy at its other end, and over it every start.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use aifo_process::receive_with_fds;
use aifo_wire::{Frame, FrameError, FrameReader, Start};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::read;

use crate::channel::Channel;
use crate::client::{Client, Tunnel};
use crate::outgoing::{Outgoing, Uplink};

/// What a runner, and the guard above it, is handed as its control connection.
#[derive(Debug)]
pub enum Control {
    /// A unix stream socket, on which descriptors come along.
    Socket(OwnedFd),
    /// Two pipes, and bytes alone: whatever descriptors would carry is relayed in frames.
    Stream {
        /// What the proxy says.
        input: OwnedFd,
        /// What the proxy hears.
        output: OwnedFd,
    },
}

impl Control {
    /// What the proxy says comes here, and its end is the end of the connection.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        match self {
            Control::Socket(fd) | Control::Stream { input: fd, .. } => fd.as_fd(),
        }
    }
}

/// A control connection in use.
#[derive(Debug)]
pub(crate) struct ControlChannel {
    input: Input,
    incoming: FrameReader,
    uplink: Uplink,
}

#[derive(Debug)]
enum Input {
    /// With the fds that came, each set for one `Start` yet to be read.
    Socket(OwnedFd, VecDeque<Vec<OwnedFd>>),
    Stream(OwnedFd),
}

/// What a `Start` comes with.
pub(crate) struct Handed {
    pub(crate) client: Option<Client>,
    /// The tool's descriptors.
    pub(crate) passed: Vec<OwnedFd>,
}

impl ControlChannel {
    /// Puts a control connection to use; pipes do not block from now on.
    pub(crate) fn new(control: Control) -> io::Result<Self> {
        let (input, outgoing) = match control {
            Control::Socket(socket) => {
                let outgoing = Outgoing::socket(socket.try_clone()?);
                (Input::Socket(socket, VecDeque::new()), outgoing)
            }
            Control::Stream { input, output } => {
                for fd in [&input, &output] {
                    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                }
                (Input::Stream(input), Outgoing::pipe(output))
            }
        };
        let uplink = Rc::new(RefCell::new(outgoing));
        Ok(ControlChannel { input, incoming: FrameReader::new(), uplink })
    }

    /// Reads what is there. `Ok(false)` when the proxy has gone.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let count = match &mut self.input {
            Input::Socket(socket, fds) => {
                let mut bytes = [0; READ];
                receive_with_fds(socket.as_fd(), &mut bytes, MAX_FDS).map(|received| {
                    if !received.fds.is_empty() {
                        fds.push_back(received.fds);
                    }
                    self.incoming.receive(bytes.get(..received.bytes).unwrap_or_default());
                    received.bytes
                })
            }
            Input::Stream(input) => {
                let buffer = self.incoming.buffer();
                let read = read(&*input, buffer.spare(READ));
                read.inspect(|count| buffer.commit(*count))
            }
        };
        match count {
            Ok(count) => Ok(count > 0),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(true),
            Err(Errno::ECONNRESET) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        self.incoming.next_frame()
    }

    /// What came with a `Start`. `None` if that is not what it says.
    pub(crate) fn take_handed(&mut self, start: &Start) -> Option<Handed> {
        let mut handed = match &mut self.input {
            // Without a descriptor the client is reached by way of the proxy; one that is missing for
            // the tool is told as such.
            Input::Stream(_) => {
                let tunnel = || Tunnel::new(start.serial, Rc::clone(&self.uplink));
                let client = start.client.as_ref().map(|_| Client::Tunnelled(tunnel()));
                Handed { client, passed: Vec::new() }
            }
            Input::Socket(_, fds) => {
                let mut passed = match start.descriptors() {
                    0 => Vec::new(),
                    expected => fds.pop_front().filter(|fds| fds.len() == expected)?,
                };
                let client = start.client.as_ref().map(|_| Channel::of_client(passed.remove(0)));
                let client = client.map(Client::Connected);
                Handed { client, passed }
            }
        };
        if let (Some(client), Some(handover)) = (&mut handed.client, &start.client) {
            client.receive(&handover.received);
        }
        Some(handed)
    }

    /// Tells the proxy something, behind whatever still waits. One that has gone is noticed by
    /// [`ControlChannel::is_broken`], or by the end of what it says.
    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        let _ = self.uplink.borrow_mut().send_frame(frame);
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        let _ = self.uplink.borrow_mut().flush();
    }

    /// Something waits for room.
    pub(crate) fn is_blocked(&self) -> bool {
        self.uplink.borrow().is_blocked()
    }

    /// Nobody hears us any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.uplink.borrow().is_broken()
    }

    /// Whether there is room again, after something had to wait.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let mut uplink = self.uplink.borrow_mut();
        !uplink.is_blocked() && uplink.was_stalled()
    }

    /// What the proxy says comes here.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        match &self.input {
            Input::Socket(fd, _) | Input::Stream(fd) => fd.as_fd(),
        }
    }

    /// The way out, which is another fd.
    pub(crate) fn uplink(&self) -> Uplink {
        Rc::clone(&self.uplink)
    }
}

/// Most commands are short; a client's bytes come in bulk.
const READ: usize = 16 * 1024;

/// With `Start`: a client's connection, and three standard descriptors.
const MAX_FDS: usize = 4;
