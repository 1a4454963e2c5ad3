//! The buffer between a tool output and its client.

use std::sync::Arc;

use crate::budget::{Budget, Share, Use};

/// A buffer that is large only while much is read and the memory of all calls has room for it.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    share: Share,
    size: ReadSize,
}

/// The size of the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadSize {
    Small,
    Bulk,
}

/// Bytes of the first read of a tool output: most tools write little.
const SMALL: usize = 4 * 1024;
/// Bytes of each read of much output, and so of a chunk. They fit into a processor's cache between
/// pipe and socket.
const BULK: usize = 64 * 1024;

impl ReadBuffer {
    pub(crate) fn new(memory: &Arc<Budget>, size: ReadSize) -> Self {
        ReadBuffer { bytes: Vec::new(), share: memory.share(), size }
    }

    /// Returns the space for a read.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let bulk = self.size == ReadSize::Bulk && self.share.try_resize(BULK, Use::Half);
        let size = if bulk { BULK } else { SMALL };
        if self.bytes.len() < size {
            self.bytes = vec![0; size];
        }
        &mut self.bytes
    }

    /// Returns the bytes of a read of `count` bytes.
    pub(crate) fn filled(&mut self, count: usize) -> &[u8] {
        self.size = if count < SMALL { ReadSize::Small } else { ReadSize::Bulk };
        self.bytes.get(..count).unwrap_or_default()
    }

    /// Frees the memory, before a wait.
    pub(crate) fn release(&mut self) {
        self.bytes = Vec::new();
        self.share.try_resize(0, Use::All);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_large_only_for_much_output() {
        let memory = Arc::new(Budget::new(4 * BULK));
        let mut buffer = ReadBuffer::new(&memory, ReadSize::Small);
        assert_eq!(buffer.space().len(), SMALL);
        assert_eq!(buffer.filled(SMALL).len(), SMALL);
        assert_eq!(buffer.space().len(), BULK);
        buffer.filled(7);
        buffer.release();
        assert_eq!((buffer.space().len(), buffer.share.bytes()), (SMALL, 0));
    }

    #[test]
    fn it_stays_small_when_half_of_the_memory_is_used() {
        let memory = Arc::new(Budget::new(4 * BULK));
        let mut buffers: Vec<_> =
            (0..3).map(|_| ReadBuffer::new(&memory, ReadSize::Bulk)).collect();
        let sizes: Vec<usize> = buffers.iter_mut().map(|buffer| buffer.space().len()).collect();
        assert_eq!(sizes, [BULK, BULK, SMALL]);
        buffers[0].release();
        assert_eq!(buffers[2].space().len(), BULK);
    }
}
