//! Forwarding of stdin, or of terminal input, to the tool.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_process::MAX_INPUT;
use aifo_wire::{CreditError, SendWindow, Stream};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Whence, lseek, read};

use crate::frame_connection::FrameConnection;
use crate::standard_fd::StandardFd;

/// Reads stdin as far as the tool's credit allows, and sends it as data frames.
#[derive(Debug)]
pub(crate) struct StdinForwarder {
    stream: Stream,
    fd: StandardFd,
    method: ReadMethod,
    credit: SendWindow,
    /// True to read without polling first.
    read_before_poll: bool,
    /// True once reading has ended.
    is_stopped: bool,
    read: u64,
    /// The last bytes read from a terminal, at most [`MAX_INPUT`].
    recent: Vec<u8>,
}

#[derive(Debug)]
enum ReadMethod {
    /// Opened again, non-blocking: another reader of the same pipe may take the bytes that poll
    /// announced.
    Reopened(OwnedFd),
    /// A socket, read with `MSG_DONTWAIT`.
    Socket,
    /// A regular file, which has a position.
    File,
    /// Anything else, read only after poll has announced data.
    Blocking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Some bytes, or none yet.
    Continue,
    /// End of file, or an error.
    End,
}

impl StdinForwarder {
    pub(crate) fn for_stdin(fd: StandardFd) -> Self {
        let kind = fstat(&fd).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
        let method = match kind {
            Ok(SFlag::S_IFSOCK) => ReadMethod::Socket,
            Ok(SFlag::S_IFREG) => ReadMethod::File,
            Ok(SFlag::S_IFIFO) => match reopen_nonblocking(&fd, OFlag::O_RDONLY) {
                Ok(fd) => ReadMethod::Reopened(fd),
                Err(_) => ReadMethod::Blocking,
            },
            _ => ReadMethod::Blocking,
        };
        // poll does not report the end of a FIFO that was opened after its last writer had closed
        // it; a read does.
        let read_before_poll = matches!(method, ReadMethod::Reopened(_));
        StdinForwarder::new(Stream::Stdin, fd, method, read_before_poll)
    }

    pub(crate) fn for_terminal(fd: StandardFd) -> Self {
        StdinForwarder::new(Stream::Terminal, fd, ReadMethod::Blocking, false)
    }

    /// Reads from `own` from now on, or from stdin if it is `None`.
    pub(crate) fn set_reader(&mut self, own: Option<OwnedFd>) {
        self.method = own.map_or(ReadMethod::Blocking, ReadMethod::Reopened);
        self.read_before_poll = false;
    }

    fn new(stream: Stream, fd: StandardFd, method: ReadMethod, read_before_poll: bool) -> Self {
        let credit = SendWindow::default();
        StdinForwarder {
            stream,
            fd,
            method,
            credit,
            read_before_poll,
            is_stopped: false,
            read: 0,
            recent: Vec::new(),
        }
    }

    /// Adds credit in bytes. Errors: the sum exceeds the limit.
    pub(crate) fn add_credit(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.credit.grant(bytes)
    }

    /// Returns the events to poll for; `None` while no data may be sent.
    pub(crate) fn poll_interest(
        &self,
        connection: &FrameConnection,
    ) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.may_read(connection).then_some((self.as_fd(), PollFlags::POLLIN))
    }

    /// Returns whether to read before the next poll.
    pub(crate) fn needs_read(&self, connection: &FrameConnection) -> bool {
        self.read_before_poll && self.may_read(connection)
    }

    pub(crate) fn read(&mut self, connection: &mut FrameConnection) -> ReadOutcome {
        if !self.may_read(connection) {
            return ReadOutcome::Continue;
        }
        let room = self.credit.left().min(MAX_READ);
        let (method, fd) = (&self.method, &self.fd);
        let recent = (self.stream == Stream::Terminal).then_some(&mut self.recent);
        let count = connection.push_data(self.stream, room, |space| {
            let count = match method {
                ReadMethod::Reopened(fd) => read(fd, space),
                ReadMethod::Socket => recv(fd.as_fd().as_raw_fd(), space, MsgFlags::MSG_DONTWAIT),
                ReadMethod::File | ReadMethod::Blocking => read(fd, space),
            }?;
            if let Some(recent) = recent {
                recent.extend_from_slice(space.get(..count).unwrap_or_default());
                let surplus = recent.len().saturating_sub(MAX_INPUT);
                recent.drain(..surplus);
            }
            Ok(count)
        });
        self.read_before_poll =
            matches!(method, ReadMethod::Reopened(_)) && count != Err(Errno::EAGAIN);
        match count {
            Ok(0) => ReadOutcome::End,
            Ok(count) => {
                self.credit.spend(count);
                self.read += count as u64;
                ReadOutcome::Continue
            }
            Err(Errno::EAGAIN | Errno::EINTR) => ReadOutcome::Continue,
            // The tool sees an error as the end of its input.
            Err(_) => ReadOutcome::End,
        }
    }

    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Closes stdin, so that its writer sees that the tool reads no more.
    pub(crate) fn close(&mut self) {
        self.is_stopped = true;
        // A file has no writer to inform, but a position that may have to be restored.
        if !matches!(self.method, ReadMethod::File) {
            self.method = ReadMethod::Blocking;
            StandardFd::replace_with_null([&self.fd]);
        }
    }

    /// Moves a file's position back to the end of the `taken` bytes that the tool has read.
    pub(crate) fn restore_position(&self, taken: u64) {
        if !matches!(self.method, ReadMethod::File) {
            return;
        }
        if let Ok(back) = i64::try_from(self.read.saturating_sub(taken)) {
            // A file that cannot seek has no position to restore.
            let _ = lseek(&self.fd, -back, Whence::SeekCur);
        }
    }

    /// Returns the bytes of a terminal after the first `taken`, and those that arrive meanwhile.
    /// `None` if there are none of the first, or not all are known.
    pub(crate) fn unread_keys(&self, taken: u64) -> Option<Vec<u8>> {
        let ReadMethod::Reopened(tty) = &self.method else { return None };
        let count = usize::try_from(self.read.checked_sub(taken)?).ok()?;
        let from = self.recent.len().checked_sub(count).filter(|_| count > 0)?;
        let mut keys = self.recent.get(from..)?.to_vec();
        let mut later = [0; MAX_INPUT];
        if let Ok(count) = read(tty, &mut later) {
            keys.extend(later.get(..count)?);
        }
        Some(keys)
    }

    fn may_read(&self, connection: &FrameConnection) -> bool {
        !connection.is_full() && !self.is_stopped && self.credit.left() > 0
    }
}

impl AsFd for StdinForwarder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.method {
            ReadMethod::Reopened(fd) => fd.as_fd(),
            ReadMethod::Socket | ReadMethod::File | ReadMethod::Blocking => self.fd.as_fd(),
        }
    }
}

/// Opens a standard descriptor again, non-blocking.
pub(crate) fn reopen_nonblocking(fd: &StandardFd, mode: OFlag) -> nix::Result<OwnedFd> {
    let flags = mode | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    open(fd.path(), flags, Mode::empty())
}

const MAX_READ: usize = 32 * 1024;
