//! A byte queue between a socket and a parser.

use std::fmt;

/// A growable byte queue.
///
/// [`spare`](Buffer::spare) returns space for a read, [`commit`](Buffer::commit) appends the bytes
/// read, [`consume`](Buffer::consume) removes parsed bytes from the front. Bytes are moved only
/// when the space after them runs out.
#[derive(Clone, Default)]
pub struct Buffer {
    /// Initialised, because `read` needs an initialised slice. Zeroed once per growth, not per
    /// read.
    storage: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// Creates an empty buffer without storage.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all free space, at least `min` bytes. [`commit`](Buffer::commit) appends the bytes
    /// written there.
    pub fn spare(&mut self, min: usize) -> &mut [u8] {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        if self.storage.len() - self.end < min && self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.len());
        }
        if self.storage.len() - self.end < min {
            let size = self.grown(min);
            self.storage.reserve_exact(size - self.storage.len());
            self.storage.resize(size, 0);
        }
        &mut self.storage[self.end..]
    }

    /// Returns the size of the storage after [`spare`](Buffer::spare) with this `min`, in bytes.
    pub fn size_with_spare(&self, min: usize) -> usize {
        if self.storage.len() - self.len() < min { self.grown(min) } else { self.storage.len() }
    }

    /// Returns a size with `min` bytes of free space after the queued ones, at least twice the
    /// present one.
    fn grown(&self, min: usize) -> usize {
        self.len().saturating_add(min).max(self.storage.len().saturating_mul(2))
    }

    /// Appends the first `filled` bytes of the last [`spare`](Buffer::spare) to the queue.
    ///
    /// # Panics
    ///
    /// If the space is smaller.
    pub fn commit(&mut self, filled: usize) {
        assert!(filled <= self.storage.len() - self.end, "committed more than the spare space");
        self.end += filled;
    }

    /// Appends a copy of `bytes`.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.spare(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.commit(bytes.len());
    }

    /// Returns the queued bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    /// Removes `used` bytes from the front.
    ///
    /// # Panics
    ///
    /// If fewer are queued.
    pub fn consume(&mut self, used: usize) {
        assert!(used <= self.len(), "consumed more than the queued bytes");
        self.start += used;
    }

    /// Removes and returns up to `count` bytes from the front; without a copy if that is the whole
    /// buffer and nothing was consumed before.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let count = count.min(self.len());
        if self.start == 0 && count == self.end {
            let mut taken = std::mem::take(self).storage;
            taken.truncate(count);
            return taken;
        }
        let taken = self.as_slice()[..count].to_vec();
        self.consume(count);
        taken
    }

    /// Frees the storage if it is empty and larger than `max` bytes.
    pub fn shrink(&mut self, max: usize) {
        if self.is_empty() && self.storage.len() > max {
            *self = Buffer::new();
        }
    }

    /// Returns the number of queued bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns whether no bytes are queued.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

impl fmt::Debug for Buffer {
    /// Prints sizes only: the bytes may contain a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len(), self.storage.len())
    }
}

/// State of a connection input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Open,
    Ended,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_order() {
        let mut buffer = Buffer::new();
        buffer.extend(b"hello ");
        let room = buffer.spare(5);
        assert!(room.len() >= 5);
        room[..5].copy_from_slice(b"world");
        assert_eq!(buffer.as_slice(), b"hello ", "not committed yet");
        buffer.commit(5);
        assert_eq!(buffer.as_slice(), b"hello world");
        buffer.consume(6);
        buffer.extend(b"!");
        assert_eq!((buffer.as_slice(), buffer.len()), (&b"world!"[..], 6));
        assert_eq!(buffer.take(2), b"wo");
        assert_eq!(buffer.take(9), b"rld!");
        assert!(buffer.is_empty());
    }

    #[test]
    fn consumed_space_is_reused() {
        let mut buffer = Buffer::new();
        buffer.spare(64);
        for _ in 0..1000 {
            buffer.extend(&[7; 40]);
            buffer.consume(30);
            buffer.extend(&[7; 20]);
            buffer.consume(30);
        }
        assert!(buffer.storage.len() <= 128, "{buffer:?}");
    }

    #[test]
    fn the_size_after_growth_is_known_before() {
        let mut buffer = Buffer::new();
        for step in 0..200 {
            let size = buffer.size_with_spare(24);
            buffer.spare(24);
            assert_eq!(buffer.storage.len(), size, "step {step}");
            assert!(buffer.storage.capacity() <= size, "step {step}");
            buffer.commit(step % 20);
            buffer.consume(buffer.len().min(step % 7));
        }
    }

    #[test]
    fn large_empty_storage_is_freed() {
        let mut buffer = Buffer::new();
        buffer.extend(&[7; 100]);
        buffer.shrink(99);
        assert_eq!(buffer.len(), 100, "not empty");
        buffer.consume(100);
        buffer.shrink(100);
        assert_eq!(buffer.storage.len(), 100, "not larger");
        buffer.shrink(99);
        assert_eq!(buffer.storage.len(), 0);
    }

    #[test]
    fn the_whole_buffer_is_taken_without_a_copy() {
        let mut buffer = Buffer::new();
        buffer.extend(b"body");
        let before = buffer.as_slice().as_ptr();
        let taken = buffer.take(4);
        assert_eq!((taken.as_ptr(), taken.as_slice()), (before, &b"body"[..]));
        buffer.extend(b"next");
        assert_eq!(buffer.as_slice(), b"next");
    }
}
