//! Reads output into a frame without copying.

use std::os::fd::BorrowedFd;

use aifo_wire::{DATA_HEAD, MAX_DATA, Stream, data_head};
use nix::unistd::read;

/// A `Data` frame under construction: space for the head, then the bytes. All execs of a runner
/// share one.
#[derive(Debug)]
pub(crate) struct DataFrame {
    bytes: Vec<u8>,
    len: usize,
}

impl DataFrame {
    pub(crate) fn new() -> Self {
        DataFrame { bytes: vec![0; DATA_HEAD + MAX_DATA], len: 0 }
    }

    /// Reads at most `limit` bytes of a stream and returns their number; 0 is the end.
    pub(crate) fn read(
        &mut self,
        stream: Stream,
        from: BorrowedFd<'_>,
        limit: usize,
    ) -> nix::Result<usize> {
        let room = limit.min(MAX_DATA);
        let count = read(from, &mut self.bytes[DATA_HEAD..DATA_HEAD + room])?;
        self.bytes[..DATA_HEAD].copy_from_slice(&data_head(stream, count));
        self.len = DATA_HEAD + count;
        Ok(count)
    }

    /// Returns the frame of the last read.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
