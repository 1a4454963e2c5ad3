//! A command's standard input, from a file that grows to its pipe.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use aifo_mailbox::{Directory, FileKind, RequestId};
use aifo_sidecar::on_reactor;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{pipe2, write};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// The client's file, and the writing end of the command's stdin.
#[derive(Debug)]
pub(crate) struct Input {
    file: File,
    /// `None` once there is nothing more to give, or nobody takes it.
    pipe: Option<AsyncFd<OwnedFd>>,
    /// Where the command is told to have come, in digits; nobody is told if it could not be made.
    taken: Option<File>,
    eof: String,
    /// How much of the file has been given.
    given: u64,
    block: Vec<u8>,
    /// What of the block has been given.
    used: usize,
}

/// As much as one write to an empty pipe takes.
const BLOCK: usize = 64 * 1024;

impl Input {
    /// From this file: our end, and the command's.
    pub(crate) fn new(
        directory: &Directory,
        id: &RequestId,
        file: File,
    ) -> io::Result<(Self, OwnedFd)> {
        let (commands, ours) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let input = Input {
            file,
            pipe: Some(on_reactor(ours, Interest::WRITABLE)?),
            taken: directory.create(&id.file(FileKind::Taken)).ok(),
            eof: id.file(FileKind::Eof),
            given: 0,
            block: Vec::new(),
            used: 0,
        };
        Ok((input, commands))
    }

    /// Whether there is more to give.
    pub(crate) fn goes_on(&self) -> bool {
        self.pipe.is_some()
    }

    /// Gives what comes next, as far as the command takes it. `grown` is rung when there is more, or the
    /// end. Cancel-safe: what has been read and not given is kept.
    pub(crate) async fn carry(&mut self, directory: &Directory, grown: &Notify) {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        if self.used == self.block.len() {
            // Looked for before the last read: what was written before the end was is read then.
            let ends = directory.exists(&self.eof);
            self.block.resize(BLOCK, 0);
            let count = self.file.read_at(&mut self.block, self.given).unwrap_or(0);
            self.block.truncate(count);
            self.used = 0;
            if count == 0 {
                match ends {
                    true => self.pipe = None,
                    false => grown.notified().await,
                }
                return;
            }
        }
        let rest = self.block.get(self.used..).unwrap_or_default();
        match write(pipe.get_ref(), rest) {
            Ok(count) => {
                self.used += count;
                self.given = self.given.saturating_add(count as u64);
                if let Some(taken) = &self.taken {
                    // Numbers only grow, and with them their digits.
                    let _ = taken.write_all_at(format!("{}\n", self.given).as_bytes(), 0);
                }
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => match pipe.writable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => self.pipe = None,
            },
            // Nobody reads any more.
            Err(_) => self.pipe = None,
        }
    }

    /// The file that grows.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}
