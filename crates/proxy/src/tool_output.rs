//! The pipe of a tool output.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use aifo_sidecar::on_reactor;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::{pipe2, read};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The reading end of a pipe that is a tool's stdout, its stderr, or both; one pipe for both keeps the
/// order of writes. The tool writes to it directly, not through the runner.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    pipe: AsyncFd<OwnedFd>,
    capacity: usize,
}

/// The output that a tool left in the pipe: at most the pipe's capacity, as background processes of the
/// tool may write endlessly.
#[derive(Debug)]
pub(crate) struct RestOfOutput {
    /// `None` if every writer has closed.
    output: Option<ToolOutput>,
    remaining: usize,
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

    /// Waits for output and reads it. 0 when every writer has closed. Cancel-safe.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.try_read(buffer)? {
                Some(count) => return Ok(count),
                None => self.readable().await?,
            }
        }
    }

    /// Waits until the pipe may have output, or every writer has closed. Cancel-safe.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        // Cleared before the next attempt, so that no event in between is lost.
        self.pipe.readable().await?.clear_ready();
        Ok(())
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

    /// Moves at most `max` bytes to a file without waiting. `None` if the pipe is empty.
    pub(crate) fn try_move(&self, file: &File, max: usize) -> io::Result<Option<usize>> {
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
        loop {
            match splice(self.pipe.get_ref(), None, file, None, max, flags) {
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                result => return Ok(Some(result?)),
            }
        }
    }

    /// Returns a reader of the output that is in the pipe after the tool has ended.
    pub(crate) fn rest(self) -> RestOfOutput {
        RestOfOutput { remaining: self.capacity, output: Some(self) }
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

impl RestOfOutput {
    /// Takes the next output by `take`, which gets the pipe and a maximum, and returns its length.
    /// `None` after the last.
    pub(crate) fn next(
        &mut self,
        take: impl FnOnce(&ToolOutput, usize) -> io::Result<Option<usize>>,
    ) -> Option<usize> {
        let output = self.output.as_ref().filter(|_| self.remaining > 0)?;
        match take(output, self.remaining) {
            Ok(Some(0)) | Err(_) => {
                self.output = None;
                None
            }
            Ok(Some(count)) => {
                self.remaining = self.remaining.saturating_sub(count);
                Some(count)
            }
            Ok(None) => None,
        }
    }

    /// Discards later output.
    pub(crate) fn discard(self) {
        if let Some(output) = self.output {
            output.discard_rest();
        }
    }
}
