//! The control connection to the proxy.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use aifo_process::{SendMode, receive_with_fds, send_with_fds};
use aifo_wire::{ClientTransport, Frame, FrameError, FrameReader, Start};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::read;

use crate::client_connection::{ClientConnection, Tunnel};
use crate::frame_socket::FrameSocket;
use crate::nonblocking_writer::{NonblockingWriter, SharedWriter};

/// The descriptors of a control connection, before use.
#[derive(Debug)]
pub enum ControlTransport {
    /// A unix stream socket that carries descriptors.
    Socket(OwnedFd),
    /// Two pipes without descriptors: the stream transport.
    Stream {
        /// From the proxy.
        input: OwnedFd,
        /// To the proxy.
        output: OwnedFd,
    },
}

impl ControlTransport {
    /// Returns the descriptor to read from; its end of file is the end of the connection.
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
    /// The socket, and the received descriptors of each `Start` that was not read yet.
    Socket(OwnedFd, VecDeque<Vec<OwnedFd>>),
    Stream(OwnedFd),
}

/// The client and descriptors that come with a `Start`.
pub(crate) struct StartAttachments {
    pub(crate) client: Option<ClientConnection>,
    pub(crate) passed: Vec<OwnedFd>,
}

impl ControlConnection {
    /// Takes a control connection into use. Pipes become non-blocking.
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

    /// Reads available bytes. Returns `Ok(false)` when the proxy has closed.
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

    /// Returns what came with a `Start`, or `None` if the number of descriptors is wrong.
    pub(crate) fn take_attachments(&mut self, start: &Start) -> Option<StartAttachments> {
        let mut passed = match (&mut self.input, start.descriptors()) {
            (ControlInput::Socket(_, fds), expected @ 1..) => {
                fds.pop_front().filter(|fds| fds.len() == expected)?
            }
            // Descriptors that the tool lacks are reported by `ToolStdio`.
            _ => Vec::new(),
        };
        let tunnel = || Tunnel::new(start.serial(), Rc::clone(&self.writer));
        let client = match start.client.as_ref().map(|client| client.transport) {
            None => None,
            Some(ClientTransport::Tunnelled) => Some(ClientConnection::Tunnelled(tunnel())),
            Some(ClientTransport::Passed) if passed.is_empty() => return None,
            Some(ClientTransport::Passed) => {
                Some(ClientConnection::Direct(FrameSocket::of_client(passed.remove(0))))
            }
        };
        let mut attachments = StartAttachments { client, passed };
        if let (Some(client), Some(handover)) = (&mut attachments.client, &start.client) {
            client.receive(&handover.received);
        }
        Some(attachments)
    }

    /// Sends a frame to the proxy, behind pending bytes. Errors show in
    /// [`ControlConnection::is_broken`].
    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        let _ = self.writer.borrow_mut().send_frame(frame);
    }

    /// Sends a frame with descriptors, and closes them. Errors: the connection carries none, or bytes are
    /// pending.
    pub(crate) fn send_with_fds(&mut self, frame: &Frame<'_>, fds: Vec<OwnedFd>) -> io::Result<()> {
        let ControlInput::Socket(socket, _) = &self.input else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        if self.is_blocked() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let sent = send_with_fds(socket.as_fd(), &bytes, &fds, SendMode::NonBlocking)?;
        // The descriptors travel with the first byte.
        self.writer.borrow_mut().send(bytes.get(sent..).unwrap_or_default())
    }

    /// Returns whether the connection carries descriptors.
    pub(crate) fn carries_descriptors(&self) -> bool {
        matches!(self.input, ControlInput::Socket(..))
    }

    pub(crate) fn flush(&mut self) {
        let _ = self.writer.borrow_mut().flush();
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.writer.borrow().is_blocked()
    }

    /// Returns whether the proxy no longer reads.
    pub(crate) fn is_broken(&self) -> bool {
        self.writer.borrow().is_broken()
    }

    /// Returns whether bytes were pending since the last call, and none are now.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let mut writer = self.writer.borrow_mut();
        !writer.is_blocked() && writer.take_had_to_wait()
    }

    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        match &self.input {
            ControlInput::Socket(fd, _) | ControlInput::Stream(fd) => fd.as_fd(),
        }
    }

    /// Returns the writer, which has its own descriptor.
    pub(crate) fn writer(&self) -> SharedWriter {
        Rc::clone(&self.writer)
    }
}

/// Most frames are short; tunnelled bytes come in bulk.
const READ_SIZE: usize = 16 * 1024;

/// A client connection and three standard descriptors.
const MAX_FDS: usize = 4;
