//! A command's stdin: copies a growing file to a pipe.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use aifo_sidecar::on_reactor;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::{pipe2, write},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
};

use crate::mailbox::files::{Directory, FileKind, RequestId};

/// The client file, and the writing end of the command's stdin.
#[derive(Debug)]
pub(crate) struct CommandStdin {
    file: File,
    /// `None` after the end of the file, or when the command has closed its stdin.
    pipe: Option<AsyncFd<OwnedFd>>,
    /// The file for the number of bytes taken, in digits; `None` if it could not be created.
    taken: Option<File>,
    eof: String,
    /// Bytes written to the pipe.
    given: u64,
    block: Vec<u8>,
    /// Bytes of the block that are written.
    used: usize,
}

/// Bytes that one write to an empty pipe accepts.
const BLOCK: usize = 64 * 1024;

impl CommandStdin {
    /// Creates the pipe. Returns the forwarder and the command's end.
    pub(crate) fn new(
        directory: &Directory,
        id: &RequestId,
        file: File,
    ) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let input = CommandStdin {
            file,
            pipe: Some(on_reactor(writer, Interest::WRITABLE)?),
            taken: directory.create(&id.file(FileKind::Taken)).ok(),
            eof: id.file(FileKind::Eof),
            given: 0,
            block: Vec::new(),
            used: 0,
        };
        Ok((input, reader))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Forwards the next bytes. `grown` is notified when the file grows or is complete. Cancel-safe: bytes
    /// read but not written are kept.
    pub(crate) async fn forward(&mut self, directory: &Directory, grown: &Notify) {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        if self.used == self.block.len() {
            // Checked before the last read, so everything written before the end is read.
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
                    // The number only grows, so overwriting leaves no old digits.
                    let _ = taken.write_all_at(format!("{}\n", self.given).as_bytes(), 0);
                }
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => match pipe.writable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => self.pipe = None,
            },
            // The command has closed its stdin.
            Err(_) => self.pipe = None,
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}
