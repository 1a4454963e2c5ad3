//! stdout or stderr, or a terminal, written without ever blocking in the write.
//!
//! A shim that is stuck in a write cannot hear Ctrl-C. Making the descriptor itself non-blocking is
//! not an option: the open file is shared with whoever started us.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::write;

use crate::standard_fd::StandardFd;

/// Where the tool's output goes.
#[derive(Debug)]
pub(crate) struct FdWriter {
    method: WriteMethod,
    fd: StandardFd,
}

#[derive(Debug)]
enum WriteMethod {
    /// A pipe or a terminal, opened once more for ourselves and non-blocking.
    Reopened(OwnedFd),
    /// A socket, which takes a flag with every write.
    Socket,
    /// A pipe or a terminal that cannot be opened again. One that is ready takes this much
    /// (PIPE_BUF) without blocking.
    PipeBuf,
    /// A file or a device: a write ends by itself.
    Blocking,
}

/// What a ready pipe takes at least (POSIX says 512, Linux has 4096).
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

    /// Writes a part of `bytes`. `None` if nothing fits now: wait for the fd to become writable.
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

    /// Whether every write has to be preceded by a wait.
    pub(crate) fn needs_poll(&self) -> bool {
        matches!(self.method, WriteMethod::PipeBuf)
    }

    /// Which descriptor it is.
    pub(crate) fn name(&self) -> &'static str {
        self.fd.name()
    }

    /// Gives our copies of it up.
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
