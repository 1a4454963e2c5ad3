//! Copying of a growing output file to a standard descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use crate::fd_writer::FdWriter;
use crate::standard_fd::StandardFd;

/// Follows one output file of a command.
pub(super) struct FileTail {
    file: File,
    writer: FdWriter,
    read: u64,
    block: Vec<u8>,
    /// Bytes of the block that have been written.
    written: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TailState {
    Drained,
    /// The descriptor does not accept more.
    Blocked,
    /// After [`MAX_BLOCKS`] blocks; more may follow.
    More,
}

const BLOCK: usize = 128 * 1024;
/// Blocks per copy, so that other streams are served, too.
const MAX_BLOCKS: usize = 16;

impl FileTail {
    pub(super) fn new(file: File, fd: StandardFd) -> Self {
        FileTail { file, writer: FdWriter::new(fd), read: 0, block: Vec::new(), written: 0 }
    }

    /// Copies available data as far as the descriptor accepts it.
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

    /// Reads the next block. Returns false at the end of the file.
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

    /// Returns the descriptor to poll for writability.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_written()).then(|| self.writer.as_fd())
    }
}
