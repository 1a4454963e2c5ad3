//! The last bytes of a stream.

use std::sync::{Arc, Mutex, PoisonError};

/// A bounded, shared buffer of a stream's last bytes.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    limit: usize,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Tail { limit, bytes: Arc::default() }
    }

    pub(crate) fn push(&self, new: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(new);
        // Up to twice the limit, so that it is seldom moved.
        if bytes.len() > self.limit.saturating_mul(2) {
            let surplus = bytes.len().saturating_sub(self.limit);
            bytes.drain(..surplus);
        }
    }

    /// Returns the bytes as text. Invalid UTF-8 is replaced; a truncated first character is
    /// dropped.
    pub(crate) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let from = bytes.len().saturating_sub(self.limit);
        let is_whole = |byte: &u8| *byte & 0b1100_0000 != 0b1000_0000;
        let tail = bytes.get(from..).unwrap_or_default();
        let cut = if from == 0 { Some(0) } else { tail.iter().position(is_whole) };
        String::from_utf8_lossy(tail.get(cut.unwrap_or(tail.len())..).unwrap_or_default())
            .into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_begins_with_a_whole_character() {
        let tail = Tail::new(5);
        assert_eq!(tail.text(), "");
        tail.push("abé".as_bytes());
        assert_eq!(tail.text(), "abé");
        tail.push(b"xyz");
        assert_eq!(tail.text(), "éxyz");
        tail.push(b"w");
        assert_eq!(tail.text(), "xyzw", "half of a character is left out");
        for _ in 0..100 {
            tail.push(b"0123456789");
        }
        assert_eq!(tail.text(), "56789");
        assert!(tail.bytes.lock().unwrap().len() <= 10);
    }
}
