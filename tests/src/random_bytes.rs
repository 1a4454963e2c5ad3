//! A pseudo-random byte stream that the fake tool writes and suites check.

/// The size of a generated block.
pub const BLOCK: usize = 64 * 1024;

/// An endless byte stream, determined by its seed.
///
/// A comparison with it also reports the position of the first difference, unlike a hash.
#[derive(Debug)]
pub struct RandomBytes {
    state: u64,
    block: Vec<u8>,
    used: usize,
    position: u64,
}

impl RandomBytes {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        // Xorshift never leaves zero.
        RandomBytes { state: seed | 1 << 63, block: vec![0; BLOCK], used: BLOCK, position: 0 }
    }

    /// The next bytes, at least one and at most `max` or [`BLOCK`].
    pub fn next(&mut self, max: usize) -> &[u8] {
        if self.used == BLOCK {
            self.refill();
        }
        let start = self.used;
        let end = BLOCK.min(start.saturating_add(max));
        self.used = end;
        self.position += (end - start) as u64;
        &self.block[start..end]
    }

    /// Panics unless `bytes` are the next bytes of the stream.
    #[track_caller]
    pub fn check(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let position = self.position;
            let expected = self.next(bytes.len());
            let (head, tail) = bytes.split_at(expected.len());
            assert!(head == expected, "the stream differs in the block at byte {position}");
            bytes = tail;
        }
    }

    /// The number of bytes generated or checked.
    pub fn position(&self) -> u64 {
        self.position
    }

    fn refill(&mut self) {
        for word in self.block.chunks_exact_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            word.copy_from_slice(&self.state.to_le_bytes());
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_stream() {
        let mut whole = RandomBytes::new(7);
        let mut checked = RandomBytes::new(7);
        for size in [1, 7, 8, BLOCK, 3 * BLOCK, 100] {
            let bytes = whole.next(size).to_vec();
            checked.check(&bytes);
        }
        assert_eq!(whole.position(), checked.position());
        assert_ne!(RandomBytes::new(1).next(64), RandomBytes::new(2).next(64));
    }
}
