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

use crate::client_connection::{ClientConnection, Tunnel};
use crate::frame_socket::FrameSocket;
use crate::nonblocking_writer::{NonblockingWriter, SharedWriter};

/// What a runner, and the guard above it, is handed as its control connection.
#[derive(Debug)]
pub enum ControlTransport {
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

impl ControlTransport {
    /// What the proxy says comes here, and its end is the end of the connection.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        match self {
            ControlTransport::Socket(fd) | ControlTransport::Stream { input: fd, .. } => fd.as_fd(),
        }
    }
}

/// A control connection in use.
#[derive(Debug)]
pub(crate) struct ControlConnection {
    input: ControlInput,
    incoming: FrameReader,
    writer: SharedWriter,
}

#[derive(Debug)]
enum ControlInput {
    /// With the fds that came, each set for one `Start` yet to be read.
    Socket(OwnedFd, VecDeque<Vec<OwnedFd>>),
    Stream(OwnedFd),
}

/// What a `Start` comes with.
pub(crate) struct StartAttachments {
    pub(crate) client: Option<ClientConnection>,
    /// The tool's descriptors.
    pub(crate) passed: Vec<OwnedFd>,
}

impl ControlConnection {
    /// Puts a control connection to use; pipes do not block from now on.
    pub(crate) fn new(control: ControlTransport) -> io::Result<Self> {
        let (input, outgoing) = match control {
            ControlTransport::Socket(socket) => {
                let outgoing = NonblockingWriter::socket(socket.try_clone()?);
                (ControlInput::Socket(socket, VecDeque::new()), outgoing)
            }
            ControlTransport::Stream { input, output } => {
                for fd in [&input, &output] {
                    fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                }
                (ControlInput::Stream(input), NonblockingWriter::pipe(output))
            }
        };
        let writer = Rc::new(RefCell::new(outgoing));
        Ok(ControlConnection { input, incoming: FrameReader::new(), writer })
    }

    /// Reads what is there. `Ok(false)` when the proxy has gone.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let count = match &mut self.input {
            ControlInput::Socket(socket, fds) => {
                let mut bytes = [0; READ_SIZE];
                receive_with_fds(socket.as_fd(), &mut bytes, MAX_FDS).map(|received| {
                    if !received.fds.is_empty() {
                        fds.push_back(received.fds);
                    }
                    self.incoming.receive(bytes.get(..received.bytes).unwrap_or_default());
                    received.bytes
                })
            }
            ControlInput::Stream(input) => {
                let buffer = self.incoming.buffer();
                let read = read(&*input, buffer.spare(READ_SIZE));
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
    pub(crate) fn take_attachments(&mut self, start: &Start) -> Option<StartAttachments> {
        let mut attachments = match &mut self.input {
            // Without a descriptor the client is reached by way of the proxy; one that is missing for
            // the tool is told as such.
            ControlInput::Stream(_) => {
                let tunnel = || Tunnel::new(start.serial, Rc::clone(&self.writer));
                let client = start.client.as_ref().map(|_| ClientConnection::Tunnelled(tunnel()));
                StartAttachments { client, passed: Vec::new() }
            }
            ControlInput::Socket(_, fds) => {
                let mut passed = match start.descriptors() {
                    0 => Vec::new(),
                    expected => fds.pop_front().filter(|fds| fds.len() == expected)?,
                };
                let client =
                    start.client.as_ref().map(|_| FrameSocket::of_client(passed.remove(0)));
                let client = client.map(ClientConnection::Direct);
                StartAttachments { client, passed }
            }
        };
        if let (Some(client), Some(handover)) = (&mut attachments.client, &start.client) {
            client.receive(&handover.received);
        }
        Some(attachments)
    }

    /// Tells the proxy something, behind whatever still waits. One that has gone is noticed by
    /// [`ControlConnection::is_broken`], or by the end of what it says.
    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        let _ = self.writer.borrow_mut().send_frame(frame);
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        let _ = self.writer.borrow_mut().flush();
    }

    /// Something waits for room.
    pub(crate) fn is_blocked(&self) -> bool {
        self.writer.borrow().is_blocked()
    }

    /// Nobody hears us any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.writer.borrow().is_broken()
    }

    /// Whether there is room again, after something had to wait.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let mut writer = self.writer.borrow_mut();
        !writer.is_blocked() && writer.take_had_to_wait()
    }

    /// What the proxy says comes here.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        match &self.input {
            ControlInput::Socket(fd, _) | ControlInput::Stream(fd) => fd.as_fd(),
        }
    }

    /// The way out, which is another fd.
    pub(crate) fn writer(&self) -> SharedWriter {
        Rc::clone(&self.writer)
    }
}

/// Most commands are short; a client's bytes come in bulk.
const READ_SIZE: usize = 16 * 1024;

/// With `Start`: a client's connection, and three standard descriptors.
const MAX_FDS: usize = 4;
