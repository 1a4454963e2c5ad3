//! One output stream of a command: copies a pipe to a file.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use aifo_mailbox::limits;
use aifo_sidecar::on_reactor;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::{pipe2, read};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The reading end of a command's stdout or stderr. The command does not write to the file directly: a
/// program that reopens `/dev/stderr` would truncate it.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pipe: AsyncFd<OwnedFd>,
    capacity: usize,
    moved: u64,
}

/// The result of copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Bytes in the file.
    Some(usize),
    /// All writers have closed the pipe.
    End,
    /// The file is full, or writing failed.
    Full,
}

/// Bytes of the pipe, so that command and daemon run concurrently.
const ROOM: i32 = 256 * 1024;

impl CommandOutput {
    /// Creates the pipe. Returns the reader and the command's end.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, commands) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // A smaller pipe works too.
        let _ = fcntl(&ours, FcntlArg::F_SETPIPE_SZ(ROOM));
        let capacity = usize::try_from(fcntl(&ours, FcntlArg::F_GETPIPE_SZ)?).unwrap_or_default();
        Ok((
            CommandOutput { pipe: on_reactor(ours, Interest::READABLE)?, capacity, moved: 0 },
            commands,
        ))
    }

    /// Copies the next bytes. Cancel-safe.
    pub(crate) async fn carry(&mut self, file: &File) -> Copied {
        loop {
            if let Some(moved) = self.try_carry(file) {
                return moved;
            }
            // Cleared before the next attempt, so an event in between is not lost.
            match self.pipe.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return Copied::End,
            }
        }
    }

    /// Drains the pipe after the command has ended. Later output of a remaining child is dropped.
    pub(crate) fn carry_rest(mut self, file: &File) {
        let mut owed = self.capacity;
        while owed > 0 {
            match self.try_carry(file) {
                Some(Copied::Some(count)) => owed = owed.saturating_sub(count),
                Some(Copied::End) => return,
                Some(Copied::Full) | None => break,
            }
        }
        self.drain_unseen();
    }

    fn try_carry(&mut self, file: &File) -> Option<Copied> {
        if self.moved >= limits::OUTPUT {
            return Some(Copied::Full);
        }
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
        loop {
            return Some(
                match splice(self.pipe.get_ref(), None, file, None, self.capacity, flags) {
                    Ok(0) => Copied::End,
                    Ok(count) => {
                        self.moved = self.moved.saturating_add(count as u64);
                        Copied::Some(count)
                    }
                    Err(Errno::EAGAIN) => return None,
                    Err(Errno::EINTR) => continue,
                    Err(errno) => {
                        tracing::warn!(reason = errno.desc(), "cannot write a command's output");
                        Copied::Full
                    }
                },
            );
        }
    }

    /// Discards output until all writers have closed: a remaining process must neither block on a full
    /// pipe nor die of SIGPIPE.
    pub(crate) fn drain_unseen(self) {
        tokio::spawn(async move {
            let mut scratch = vec![0; 4096];
            loop {
                match read(self.pipe.get_ref(), &mut scratch) {
                    Ok(0) => return,
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => match self.pipe.readable().await {
                        Ok(mut ready) => ready.clear_ready(),
                        Err(_) => return,
                    },
                    Err(_) => return,
                }
                tokio::task::yield_now().await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[tokio::test]
    async fn what_is_written_is_moved_and_no_more_than_stood_there_at_the_end() {
        let path = std::env::temp_dir().join(format!("aifo-command-output-{}", std::process::id()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.as_mut().unwrap();
        std::fs::remove_file(&path).unwrap();
        let (mut output, commands) = CommandOutput::new().unwrap();
        // The writing end of a background child.
        let kept = commands.try_clone().unwrap();
        let mut commands = File::from(commands);
        commands.write_all(b"first").unwrap();
        assert_eq!(output.carry(file).await, Copied::Some(5));
        commands.write_all(b", rest").unwrap();
        drop(commands);
        output.carry_rest(file);
        File::from(kept).write_all(b"nobody's").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "first, rest");

        let (mut output, commands) = CommandOutput::new().unwrap();
        drop(commands);
        assert_eq!(output.carry(file).await, Copied::End);
    }

    #[tokio::test]
    async fn a_file_that_takes_no_more_is_told() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (mut output, commands) = CommandOutput::new().unwrap();
        File::from(commands).write_all(b"too much").unwrap();
        assert_eq!(output.carry(&full).await, Copied::Full);
    }
}
