//! One buffer in which output becomes a frame without being copied.

use std::os::fd::BorrowedFd;

use aifo_wire::{MAX_PAYLOAD, stdout_head};
use nix::unistd::read;

const HEAD: usize = 5;

/// A `Stdout` frame in the making: room for the head, then the payload. The runner has one for all
/// of its execs.
#[derive(Debug)]
pub(crate) struct OutputFrame {
    bytes: Vec<u8>,
}

impl OutputFrame {
    pub(crate) fn new() -> Self {
        OutputFrame { bytes: vec![0; HEAD + MAX_PAYLOAD] }
    }

    /// Reads at most `limit` bytes from a pipe. `None` at its end.
    pub(crate) fn read(
        &mut self,
        pipe: BorrowedFd<'_>,
        limit: usize,
    ) -> nix::Result<Option<Output<'_>>> {
        let room = limit.min(MAX_PAYLOAD);
        let count = read(pipe, &mut self.bytes[HEAD..HEAD + room])?;
        if count == 0 {
            return Ok(None);
        }
        self.bytes[..HEAD].copy_from_slice(&stdout_head(count));
        Ok(Some(Output { len: count, frame: &self.bytes[..HEAD + count] }))
    }
}

/// Output that was read.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    /// How many bytes the tool wrote.
    pub(crate) len: usize,
    /// The encoded frame.
    pub(crate) frame: &'a [u8],
}
