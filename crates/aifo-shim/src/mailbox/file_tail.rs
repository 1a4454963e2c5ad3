//! One stream of a command, from its file to our own descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use crate::fd_writer::FdWriter;
use crate::standard_fd::StandardFd;

/// A file that grows, and where its content goes.
pub(super) struct FileTail {
    file: File,
    writer: FdWriter,
    /// How far it has been read.
    read: u64,
    block: Vec<u8>,
    /// What of the block has been written.
    written: usize,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TailState {
    /// Everything that is there has been written.
    Drained,
    /// Our reader has to make room.
    Blocked,
    /// There is more, and somebody else may have a turn first.
    More,
}

const BLOCK: usize = 128 * 1024;
/// Blocks of one turn.
const MAX_BLOCKS: usize = 16;

impl FileTail {
    pub(super) fn new(file: File, fd: StandardFd) -> Self {
        FileTail { file, writer: FdWriter::new(fd), read: 0, block: Vec::new(), written: 0 }
    }

    /// Writes what has come, as far as our reader takes it.
    pub(super) fn copy(&mut self) -> io::Result<TailState> {
        for _ in 0..MAX_BLOCKS {
            if self.is_written() && !self.fill()? {
                return Ok(TailState::Drained);
            }
            let rest = self.block.get(self.written..).unwrap_or_default();
            match self.writer.write(rest)? {
                Some(count) => self.written += count,
                None => return Ok(TailState::Blocked),
            }
            if self.writer.needs_poll() && !self.is_written() {
                return Ok(TailState::Blocked);
            }
        }
        Ok(TailState::More)
    }

    /// Reads the next block; false if there is none yet.
    fn fill(&mut self) -> io::Result<bool> {
        self.block.resize(BLOCK, 0);
        let count = self.file.read_at(&mut self.block, self.read)?;
        self.block.truncate(count);
        self.read = self.read.saturating_add(count as u64);
        self.written = 0;
        Ok(count > 0)
    }

    fn is_written(&self) -> bool {
        self.written >= self.block.len()
    }

    /// What to wait for room on.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_written()).then(|| self.writer.as_fd())
    }
}
