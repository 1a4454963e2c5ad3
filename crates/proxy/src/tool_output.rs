//! The pipe that a tool's stdout and stderr write to.

use std::io;
use std::os::fd::OwnedFd;

use aifo_sidecar::on_reactor;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{pipe2, read};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The reading end of the pipe that is a tool's stdout and stderr. One pipe for both keeps the order of
/// writes. The tool writes to it directly, not through the runner.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    pipe: AsyncFd<OwnedFd>,
    capacity: usize,
}

/// The pipe's capacity, so that tool and proxy work concurrently. Four times the default, and within
/// `pipe-user-pages-soft` for the maximum of running tools (pipe(7)).
const PIPE_CAPACITY: i32 = 256 * 1024;

impl ToolOutput {
    /// Creates a pipe. Returns the reading end and the tool's writing end.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // A smaller pipe works too.
        let _ = fcntl(&reader, FcntlArg::F_SETPIPE_SZ(PIPE_CAPACITY));
        let capacity = fcntl(&reader, FcntlArg::F_GETPIPE_SZ)?;
        let capacity = usize::try_from(capacity).unwrap_or_default();
        Ok((ToolOutput { pipe: on_reactor(reader, Interest::READABLE)?, capacity }, writer))
    }

    /// Returns the pipe's capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Waits for output and reads it. 0 when every writer has closed. Cancel-safe.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.try_read(buffer)? {
                Some(count) => return Ok(count),
                // Cleared before the next attempt, so that no event in between is lost.
                None => self.pipe.readable().await?.clear_ready(),
            }
        }
    }

    /// Reads without waiting. `None` if the pipe is empty.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match read(self.pipe.get_ref(), buffer) {
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                result => return Ok(Some(result?)),
            }
        }
    }

    /// Discards output in the background until every writer has closed, so that background processes
    /// of the tool neither block on a full pipe nor get SIGPIPE.
    pub(crate) fn discard_rest(self) {
        tokio::spawn(async move {
            let mut scratch = vec![0; 4096];
            while self.read(&mut scratch).await.is_ok_and(|count| count > 0) {}
        });
    }
}
