//! What the tool is to read: a relayed stdin, or what is typed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aifo_wire::{CreditError, SendWindow, Stream};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Whence, lseek, read};

use crate::line::Line;
use crate::standard::Standard;

/// Our stdin, read only as far as the tool takes it.
#[derive(Debug)]
pub(crate) struct Inlet {
    stream: Stream,
    standard: Standard,
    way: Way,
    credit: SendWindow,
    /// A read has to be tried before the next wait.
    may_be_ready: bool,
    /// Nothing more is read.
    is_over: bool,
    /// Bytes that were read so far.
    read: u64,
}

#[derive(Debug)]
enum Way {
    /// Opened once more for ourselves and non-blocking: others may read the same pipe, and take what
    /// was announced to us.
    Reopened(OwnedFd),
    /// A socket, which takes a flag with every read.
    Socket,
    /// A file, which has a position.
    File,
    /// Anything else: what is announced is there.
    Direct,
}

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Bytes, or none for now.
    GoesOn,
    /// The end, or what is as good.
    End,
}

impl Inlet {
    /// A stdin that is no terminal.
    pub(crate) fn relayed(standard: Standard) -> Self {
        let kind =
            fstat(&standard).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
        let way = match kind {
            Ok(SFlag::S_IFSOCK) => Way::Socket,
            Ok(SFlag::S_IFREG) => Way::File,
            Ok(SFlag::S_IFIFO) => match reopen(&standard, OFlag::O_RDONLY) {
                Ok(fd) => Way::Reopened(fd),
                Err(_) => Way::Direct,
            },
            _ => Way::Direct,
        };
        // A named pipe whose last writer has left does not announce its end to who opens it later;
        // a first read finds it.
        let may_be_ready = matches!(way, Way::Reopened(_));
        Inlet::new(Stream::Stdin, standard, way, may_be_ready)
    }

    /// The terminal that is stdin.
    pub(crate) fn typed(standard: Standard) -> Self {
        Inlet::new(Stream::Terminal, standard, Way::Direct, false)
    }

    /// From now on reads by this descriptor of our own, or again by stdin itself.
    pub(crate) fn read_by(&mut self, own: Option<OwnedFd>) {
        self.way = own.map_or(Way::Direct, Way::Reopened);
        self.may_be_ready = false;
    }

    fn new(stream: Stream, standard: Standard, way: Way, may_be_ready: bool) -> Self {
        let credit = SendWindow::default();
        Inlet { stream, standard, way, credit, may_be_ready, is_over: false, read: 0 }
    }

    /// The tool takes so many bytes more. Errors: more than there can be.
    pub(crate) fn grant(&mut self, bytes: u32) -> Result<(), CreditError> {
        self.credit.grant(bytes)
    }

    /// What to wait for; nothing while nothing may be sent.
    pub(crate) fn wants(&self, line: &Line) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.may_read(line).then_some((self.as_fd(), PollFlags::POLLIN))
    }

    /// Whether a read has to be tried before the next wait.
    pub(crate) fn wants_to_try(&self, line: &Line) -> bool {
        self.may_be_ready && self.may_read(line)
    }

    /// Reads once, and has it sent.
    pub(crate) fn read(&mut self, line: &mut Line) -> Reading {
        if !self.may_read(line) {
            return Reading::GoesOn;
        }
        let room = self.credit.left().min(ROOM);
        let (way, standard) = (&self.way, &self.standard);
        let count = line.push_data(self.stream, room, |space| match way {
            Way::Reopened(fd) => read(fd, space),
            Way::Socket => recv(standard.as_fd().as_raw_fd(), space, MsgFlags::MSG_DONTWAIT),
            Way::File | Way::Direct => read(standard, space),
        });
        self.may_be_ready = matches!(way, Way::Reopened(_)) && count != Err(Errno::EAGAIN);
        match count {
            Ok(0) => Reading::End,
            Ok(count) => {
                self.credit.spend(count);
                self.read += count as u64;
                Reading::GoesOn
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Reading::GoesOn,
            // Nothing will come from there: for the tool this is the end.
            Err(_) => Reading::End,
        }
    }

    /// Reads no more.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// The tool reads no more: who writes to stdin is to see it.
    pub(crate) fn let_go(&mut self) {
        self.is_over = true;
        // A file has no other end, but a position, which may have to be put back.
        if !matches!(self.way, Way::File) {
            self.way = Way::Direct;
            Standard::let_go([&self.standard]);
        }
    }

    /// Puts a file's position back to where the tool has read: so many bytes were taken.
    pub(crate) fn put_back(&self, taken: u64) {
        if !matches!(self.way, Way::File) {
            return;
        }
        if let Ok(back) = i64::try_from(self.read.saturating_sub(taken)) {
            // A file that cannot be positioned was not read ahead in any sense.
            let _ = lseek(&self.standard, -back, Whence::SeekCur);
        }
    }

    fn may_read(&self, line: &Line) -> bool {
        !line.is_full() && !self.is_over && self.credit.left() > 0
    }
}

impl AsFd for Inlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Reopened(fd) => fd.as_fd(),
            Way::Socket | Way::File | Way::Direct => self.standard.as_fd(),
        }
    }
}

/// Opens stdin once more, non-blocking.
pub(crate) fn reopen(standard: &Standard, mode: OFlag) -> nix::Result<OwnedFd> {
    let flags = mode | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    open(standard.path(), flags, Mode::empty())
}

/// Bytes that one read takes: half of what a pipe holds.
const ROOM: usize = 32 * 1024;
