//! What the tool is to read: a relayed stdin, or what is typed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_wire::{Credit, CreditError, Stream};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Whence, lseek, read};

use crate::frame_connection::FrameConnection;
use crate::standard_fd::StandardFd;

/// Our stdin, read only as far as the tool takes it.
#[derive(Debug)]
pub(crate) struct StdinForwarder {
    stream: Stream,
    fd: StandardFd,
    method: ReadMethod,
    credit: Credit,
    /// A read has to be tried before the next wait.
    needs_first_read: bool,
    /// Nothing more is read.
    is_stopped: bool,
    /// Bytes that were read so far.
    read: u64,
}

#[derive(Debug)]
enum ReadMethod {
    /// Opened once more for ourselves and non-blocking: others may read the same pipe, and take what
    /// was announced to us.
    Reopened(OwnedFd),
    /// A socket, which takes a flag with every read.
    Socket,
    /// A file, which has a position.
    File,
    /// Anything else: what is announced is there.
    Blocking,
}

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Bytes, or none for now.
    Continue,
    /// The end, or what is as good.
    End,
}

impl StdinForwarder {
    /// A stdin that is no terminal.
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
        // A named pipe whose last writer has left does not announce its end to who opens it later;
        // a first read finds it.
        let needs_first_read = matches!(method, ReadMethod::Reopened(_));
        StdinForwarder::new(Stream::Stdin, fd, method, needs_first_read)
    }

    /// The terminal that is stdin.
    pub(crate) fn for_terminal(fd: StandardFd) -> Self {
        StdinForwarder::new(Stream::Terminal, fd, ReadMethod::Blocking, false)
    }

    /// From now on reads by this descriptor of our own, or again by stdin itself.
    pub(crate) fn set_reader(&mut self, own: Option<OwnedFd>) {
        self.method = own.map_or(ReadMethod::Blocking, ReadMethod::Reopened);
        self.needs_first_read = false;
    }

    fn new(stream: Stream, fd: StandardFd, method: ReadMethod, needs_first_read: bool) -> Self {
        let credit = Credit::default();
        StdinForwarder { stream, fd, method, credit, needs_first_read, is_stopped: false, read: 0 }
    }

    /// The tool takes so many bytes more. Errors: more than there can be.
    pub(crate) fn add_credit(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.credit.grant(bytes)
    }

    /// What to wait for; nothing while nothing may be sent.
    pub(crate) fn poll_interest(
        &self,
        connection: &FrameConnection,
    ) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.may_read(connection).then_some((self.as_fd(), PollFlags::POLLIN))
    }

    /// Whether a read has to be tried before the next wait.
    pub(crate) fn needs_read(&self, connection: &FrameConnection) -> bool {
        self.needs_first_read && self.may_read(connection)
    }

    /// Reads once, and has it sent.
    pub(crate) fn read(&mut self, connection: &mut FrameConnection) -> ReadOutcome {
        if !self.may_read(connection) {
            return ReadOutcome::Continue;
        }
        let room = self.credit.left().min(MAX_READ);
        let (method, fd) = (&self.method, &self.fd);
        let count = connection.push_data(self.stream, room, |space| match method {
            ReadMethod::Reopened(fd) => read(fd, space),
            ReadMethod::Socket => recv(fd.as_fd().as_raw_fd(), space, MsgFlags::MSG_DONTWAIT),
            ReadMethod::File | ReadMethod::Blocking => read(fd, space),
        });
        self.needs_first_read =
            matches!(method, ReadMethod::Reopened(_)) && count != Err(Errno::EAGAIN);
        match count {
            Ok(0) => ReadOutcome::End,
            Ok(count) => {
                self.credit.spend(count);
                self.read += count as u64;
                ReadOutcome::Continue
            }
            Err(Errno::EAGAIN | Errno::EINTR) => ReadOutcome::Continue,
            // Nothing will come from there: for the tool this is the end.
            Err(_) => ReadOutcome::End,
        }
    }

    /// Reads no more.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// The tool reads no more: who writes to stdin is to see it.
    pub(crate) fn close(&mut self) {
        self.is_stopped = true;
        // A file has no other end, but a position, which may have to be put back.
        if !matches!(self.method, ReadMethod::File) {
            self.method = ReadMethod::Blocking;
            StandardFd::replace_with_null([&self.fd]);
        }
    }

    /// Puts a file's position back to where the tool has read: so many bytes were taken.
    pub(crate) fn restore_position(&self, taken: u64) {
        if !matches!(self.method, ReadMethod::File) {
            return;
        }
        if let Ok(back) = i64::try_from(self.read.saturating_sub(taken)) {
            // A file that cannot be positioned was not read ahead in any sense.
            let _ = lseek(&self.fd, -back, Whence::SeekCur);
        }
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

/// Opens stdin once more, non-blocking.
pub(crate) fn reopen_nonblocking(fd: &StandardFd, mode: OFlag) -> nix::Result<OwnedFd> {
    let flags = mode | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    open(fd.path(), flags, Mode::empty())
}

/// Bytes that one read takes: half of what a pipe holds.
const MAX_READ: usize = 32 * 1024;
