//! One buffer in which output becomes a frame without being copied.

use std::os::fd::BorrowedFd;

use aifo_wire::{DATA_HEAD, MAX_DATA, Stream, data_head};
use nix::unistd::read;

/// A `Data` frame in the making: room for the head, then the bytes. The runner has one for all of
/// its execs.
#[derive(Debug)]
pub(crate) struct DataFrame {
    bytes: Vec<u8>,
    len: usize,
}

impl DataFrame {
    pub(crate) fn new() -> Self {
        DataFrame { bytes: vec![0; DATA_HEAD + MAX_DATA], len: 0 }
    }

    /// Reads at most `limit` bytes of a stream and returns how many; 0 at its end.
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

    /// The frame of the last read.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
