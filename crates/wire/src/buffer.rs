//! The byte queue between a socket and a parser.

use std::fmt;

/// A growable queue of bytes that reads go into directly.
///
/// [`spare`](Buffer::spare) hands out room for a read, [`commit`](Buffer::commit) says how much of
/// it was filled, [`consume`](Buffer::consume) drops from the front what a parser has used. Bytes
/// move only when room runs out behind them.
#[derive(Clone, Default)]
pub struct Buffer {
    /// All initialised, so that a slice of it can be handed to `read`: zeroing happens once per
    /// growth, not once per read.
    storage: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer, without storage.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for at least `min` more bytes, as much as there is. What is written there counts only
    /// after [`commit`](Buffer::commit).
    pub fn spare(&mut self, min: usize) -> &mut [u8] {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        if self.storage.len() - self.end < min && self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.len());
        }
        if self.storage.len() - self.end < min {
            let doubled = self.storage.len().saturating_mul(2);
            self.storage.resize(self.end.saturating_add(min).max(doubled), 0);
        }
        &mut self.storage[self.end..]
    }

    /// Counts the first `filled` bytes of the last [`spare`](Buffer::spare) as received.
    ///
    /// # Panics
    ///
    /// If there were not that many.
    pub fn commit(&mut self, filled: usize) {
        assert!(filled <= self.storage.len() - self.end, "committed more than there was room for");
        self.end += filled;
    }

    /// Appends a copy of `bytes`.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.spare(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.commit(bytes.len());
    }

    /// What is queued, oldest byte first.
    pub fn as_slice(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    /// Drops `used` bytes from the front.
    ///
    /// # Panics
    ///
    /// If there are not that many.
    pub fn consume(&mut self, used: usize) {
        assert!(used <= self.len(), "consumed more than there was");
        self.start += used;
    }

    /// Removes up to `count` bytes from the front and returns them; without a copy if they are all
    /// there is and nothing before them was consumed.
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

    /// How many bytes are queued.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

impl fmt::Debug for Buffer {
    /// Tells sizes only: the bytes may hold a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len(), self.storage.len())
    }
}

/// Whether a connection may still bring bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Open,
    Ended,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came() {
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
    fn consumed_room_is_used_again() {
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
    fn all_of_it_is_taken_without_a_copy() {
        let mut buffer = Buffer::new();
        buffer.extend(b"body");
        let before = buffer.as_slice().as_ptr();
        let taken = buffer.take(4);
        assert_eq!((taken.as_ptr(), taken.as_slice()), (before, &b"body"[..]));
        buffer.extend(b"next");
        assert_eq!(buffer.as_slice(), b"next");
    }
}
