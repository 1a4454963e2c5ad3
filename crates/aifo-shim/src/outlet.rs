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

use crate::standard::Standard;

/// Where the tool's output goes.
#[derive(Debug)]
pub(crate) struct Outlet {
    way: Way,
    standard: Standard,
}

#[derive(Debug)]
enum Way {
    /// A pipe or a terminal, opened once more for ourselves and non-blocking.
    Reopened(OwnedFd),
    /// A socket, which takes a flag with every write.
    Socket,
    /// A pipe or a terminal that cannot be opened again. One that is ready takes this much
    /// (PIPE_BUF) without blocking.
    Careful,
    /// A file or a device: a write ends by itself.
    Direct,
}

/// What a ready pipe takes at least (POSIX says 512, Linux has 4096).
const PIPE_BUF: usize = 4096;

impl Outlet {
    pub(crate) fn new(standard: Standard) -> Self {
        let kind =
            fstat(&standard).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
        let is_terminal = io::IsTerminal::is_terminal(&standard.as_fd());
        let way = match kind {
            Ok(SFlag::S_IFSOCK) => Way::Socket,
            Ok(SFlag::S_IFIFO) => reopen(&standard),
            Ok(SFlag::S_IFCHR) if is_terminal => reopen(&standard),
            _ => Way::Direct,
        };
        Outlet { way, standard }
    }

    /// Writes a part of `bytes`. `None` if nothing fits now: wait for the fd to become writable.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let written = match &self.way {
            Way::Reopened(fd) => write(fd, bytes),
            Way::Socket => send(
                self.standard.as_fd().as_raw_fd(),
                bytes,
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            ),
            Way::Careful => write(&self.standard, &bytes[..bytes.len().min(PIPE_BUF)]),
            Way::Direct => write(&self.standard, bytes),
        };
        match written {
            Ok(count) => Ok(Some(count)),
            Err(Errno::EAGAIN) => Ok(None),
            Err(Errno::EINTR) => Ok(Some(0)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether every write has to be preceded by a wait.
    pub(crate) fn must_wait_first(&self) -> bool {
        matches!(self.way, Way::Careful)
    }

    /// Which descriptor it is.
    pub(crate) fn name(&self) -> &'static str {
        self.standard.name()
    }

    /// Gives our copies of it up.
    pub(crate) fn let_go(self) {
        Standard::let_go([&self.standard]);
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Reopened(fd) => fd.as_fd(),
            Way::Socket | Way::Careful | Way::Direct => self.standard.as_fd(),
        }
    }
}

fn reopen(standard: &Standard) -> Way {
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    match open(standard.path(), flags, Mode::empty()) {
        Ok(fd) => Way::Reopened(fd),
        Err(_) => Way::Careful,
    }
}
