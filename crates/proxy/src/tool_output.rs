//! A tool's stdout and stderr, read where the tool wrote it.

use std::io;
use std::os::fd::OwnedFd;

use aifo_sidecar::on_reactor;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{pipe2, read};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The reading end of the pipe that a tool writes to, as its stdout and its stderr at once, so that
/// the order in which it wrote is kept. The runner is not on the way.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    pipe: AsyncFd<OwnedFd>,
    capacity: usize,
}

/// Room in the pipe, so that tool and proxy can work at the same time. Four times the default, and
/// still little enough for as many tools as may run (pipe(7), `pipe-user-pages-soft`).
const PIPE_CAPACITY: i32 = 256 * 1024;

impl ToolOutput {
    /// A new pipe: our end, and the tool's.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // Where it is refused, a smaller pipe does as well.
        let _ = fcntl(&reader, FcntlArg::F_SETPIPE_SZ(PIPE_CAPACITY));
        let capacity = fcntl(&reader, FcntlArg::F_GETPIPE_SZ)?;
        let capacity = usize::try_from(capacity).unwrap_or_default();
        Ok((ToolOutput { pipe: on_reactor(reader, Interest::READABLE)?, capacity }, writer))
    }

    /// The most that can stand in the pipe at one time.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Waits for output. 0 when every writer has closed. Cancel-safe.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.try_read(buffer)? {
                Some(count) => return Ok(count),
                // Forgotten before the next attempt, so an event in between is never lost.
                None => self.pipe.readable().await?.clear_ready(),
            }
        }
    }

    /// Reads what stands in the pipe. `None` if that is nothing.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match read(self.pipe.get_ref(), buffer) {
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                result => return Ok(Some(result?)),
            }
        }
    }

    /// Reads on unseen until every writer has closed: what a tool left running must neither be
    /// stopped by a full pipe nor killed by one without a reader.
    pub(crate) fn discard_rest(self) {
        tokio::spawn(async move {
            let mut scratch = vec![0; 4096];
            while self.read(&mut scratch).await.is_ok_and(|count| count > 0) {}
        });
    }
}
