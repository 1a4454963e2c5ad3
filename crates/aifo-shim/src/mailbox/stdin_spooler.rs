//! Copying of standard input to the request's `.stdin` file.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aifo_mailbox::{Directory, FileKind, RequestId, limits};
use aifo_process::terminal;
use aifo_types::Stdio;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;

use crate::descriptors::{self, FdTransport};
use crate::standard_fd::StandardFd;
use crate::stdin_forwarder::reopen_nonblocking;

/// Spools stdin, at most [`limits::STDIN_AHEAD`] bytes ahead of the command.
pub(super) struct StdinSpooler {
    standard: StandardFd,
    /// A pipe, opened again non-blocking: another reader may take the bytes that poll announced.
    reopened: Option<OwnedFd>,
    file: File,
    id: RequestId,
    sent: u64,
    taken: u64,
    is_finished: bool,
}

const BLOCK: usize = 64 * 1024;

impl StdinSpooler {
    /// Returns `None` if stdin is closed or `/dev/null`.
    pub(super) fn new(
        directory: &Directory,
        id: &RequestId,
        closed: [bool; 3],
    ) -> io::Result<Option<Self>> {
        let standard = StandardFd::all();
        let [stdin, _, _] =
            descriptors::classify(standard.each_ref().map(AsFd::as_fd), closed, FdTransport::Pass);
        if matches!(stdin, Stdio::Null | Stdio::Closed) {
            return Ok(None);
        }
        let standard = StandardFd::input();
        let is_pipe = stdin == Stdio::Passed && !is_file(&standard);
        let reopened =
            is_pipe.then(|| reopen_nonblocking(&standard, OFlag::O_RDONLY).ok()).flatten();
        let file = directory.create(&id.file(FileKind::Stdin))?;
        Ok(Some(StdinSpooler {
            standard,
            reopened,
            file,
            id: id.clone(),
            sent: 0,
            taken: 0,
            is_finished: false,
        }))
    }

    /// Copies a block if one is available and the limit allows it.
    pub(super) fn spool(&mut self, directory: &Directory) {
        if self.is_full() {
            self.taken = taken(directory, &self.id).unwrap_or(self.taken);
        }
        if self.is_finished || self.is_full() || !self.is_ready() {
            return;
        }
        let mut block = [0; BLOCK];
        match read(self.fd(), &mut block) {
            Ok(count) if count > 0 => {
                let written = self.file.write_all(block.get(..count).unwrap_or_default());
                self.sent = self.sent.saturating_add(count as u64);
                // A failed write, as on a full disk, must not look like the end of input.
                self.is_finished = written.is_err();
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // The command sees an error as the end of its input.
            Ok(_) | Err(_) => {
                self.is_finished = true;
                let _ = directory.create(&self.id.file(FileKind::Eof));
            }
        }
    }

    /// Returns the descriptor to poll for readability.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_finished && !self.is_full() && self.is_readable_here()).then(|| self.fd())
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.reopened.as_ref().map_or(self.standard.as_fd(), AsFd::as_fd)
    }

    fn is_full(&self) -> bool {
        self.sent.saturating_sub(self.taken) >= limits::STDIN_AHEAD
    }

    /// Returns whether stdin may be read: a terminal stops a process that reads it in the
    /// background.
    fn is_readable_here(&self) -> bool {
        !self.standard.as_fd().is_terminal() || terminal::is_foreground(self.standard.as_fd())
    }

    fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(self.fd(), PollFlags::POLLIN)];
        self.is_readable_here() && poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

fn is_file(standard: &StandardFd) -> bool {
    use nix::sys::stat::{SFlag, fstat};
    fstat(standard)
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG)
}

/// Returns how many bytes the command has been given, as the daemon reports it.
fn taken(directory: &Directory, id: &RequestId) -> Option<u64> {
    let text = directory.read(&id.file(FileKind::Taken), limits::SIGNAL * 2).ok()?;
    std::str::from_utf8(&text).ok()?.lines().next()?.parse().ok()
}
