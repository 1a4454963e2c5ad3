//! Non-blocking writes to stdout, stderr or a terminal.
//!
//! A blocked write would delay signals. `O_NONBLOCK` cannot be set on the descriptor itself,
//! because its open file description is shared with the parent.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::write;

use crate::standard_fd::StandardFd;

#[derive(Debug)]
pub(crate) struct FdWriter {
    method: WriteMethod,
    fd: StandardFd,
}

#[derive(Debug)]
enum WriteMethod {
    /// A pipe or terminal, opened again with `O_NONBLOCK`.
    Reopened(OwnedFd),
    /// A socket, written with `MSG_DONTWAIT`.
    Socket,
    /// A pipe or terminal that cannot be opened again. Writes of at most `PIPE_BUF` bytes do not
    /// block after poll.
    PipeBuf,
    /// A file or device, on which a write returns soon.
    Blocking,
}

/// Bytes that a writable pipe accepts (POSIX: at least 512; Linux: 4096).
const PIPE_BUF: usize = 4096;

impl FdWriter {
    pub(crate) fn new(fd: StandardFd) -> Self {
        let kind = fstat(&fd).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
        let is_terminal = io::IsTerminal::is_terminal(&fd.as_fd());
        let method = match kind {
            Ok(SFlag::S_IFSOCK) => WriteMethod::Socket,
            Ok(SFlag::S_IFIFO) => reopen(&fd),
            Ok(SFlag::S_IFCHR) if is_terminal => reopen(&fd),
            _ => WriteMethod::Blocking,
        };
        FdWriter { method, fd }
    }

    /// Writes a part of `bytes` and returns its length. `None`: poll for writability first.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let written = match &self.method {
            WriteMethod::Reopened(fd) => write(fd, bytes),
            WriteMethod::Socket => send(
                self.fd.as_fd().as_raw_fd(),
                bytes,
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            ),
            WriteMethod::PipeBuf => write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)]),
            WriteMethod::Blocking => write(&self.fd, bytes),
        };
        match written {
            Ok(count) => Ok(Some(count)),
            Err(Errno::EAGAIN) => Ok(None),
            Err(Errno::EINTR) => Ok(Some(0)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns whether to poll before every write.
    pub(crate) fn needs_poll(&self) -> bool {
        matches!(self.method, WriteMethod::PipeBuf)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.fd.name()
    }

    /// Closes this process's copy of the descriptor.
    pub(crate) fn close(self) {
        StandardFd::replace_with_null([&self.fd]);
    }
}

impl AsFd for FdWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.method {
            WriteMethod::Reopened(fd) => fd.as_fd(),
            WriteMethod::Socket | WriteMethod::PipeBuf | WriteMethod::Blocking => self.fd.as_fd(),
        }
    }
}

fn reopen(fd: &StandardFd) -> WriteMethod {
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    match open(fd.path(), flags, Mode::empty()) {
        Ok(fd) => WriteMethod::Reopened(fd),
        Err(_) => WriteMethod::PipeBuf,
    }
}
