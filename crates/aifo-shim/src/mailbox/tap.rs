//! One stream of a command, from its file to our own descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use crate::outlet::Outlet;
use crate::standard::Standard;

/// A file that grows, and where its content goes.
pub(super) struct Tap {
    file: File,
    outlet: Outlet,
    /// How far it has been read.
    read: u64,
    block: Vec<u8>,
    /// What of the block has been written.
    written: usize,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flow {
    /// Everything that is there has been written.
    Dry,
    /// Our reader has to make room.
    Full,
    /// There is more, and somebody else may have a turn first.
    More,
}

const BLOCK: usize = 128 * 1024;
/// Blocks of one turn.
const TURN: usize = 16;

impl Tap {
    pub(super) fn new(file: File, standard: Standard) -> Self {
        Tap { file, outlet: Outlet::new(standard), read: 0, block: Vec::new(), written: 0 }
    }

    /// Writes what has come, as far as our reader takes it.
    pub(super) fn carry(&mut self) -> io::Result<Flow> {
        for _ in 0..TURN {
            if self.is_written() && !self.fill()? {
                return Ok(Flow::Dry);
            }
            let rest = self.block.get(self.written..).unwrap_or_default();
            match self.outlet.write(rest)? {
                Some(count) => self.written += count,
                None => return Ok(Flow::Full),
            }
            if self.outlet.must_wait_first() && !self.is_written() {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::More)
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
    pub(super) fn wants(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_written()).then(|| self.outlet.as_fd())
    }
}
