//! The last bytes of a stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A shared buffer of a stream's last bytes, at most a limit.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    limit: usize,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    truncated: bool,
}

/// A tail as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TailText {
    pub(crate) text: String,
    /// True if earlier output was dropped.
    pub(crate) truncated: bool,
}

/// Selects whether a stream may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamState {
    Open,
    Ended,
}

impl Tail {
    /// Creates a tail of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Tail { limit, kept: Arc::default() }
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        let new = bytes.get(bytes.len().saturating_sub(self.limit)..).unwrap_or_default();
        let excess = (kept.bytes.len() + new.len()).saturating_sub(self.limit);
        kept.truncated |= excess > 0 || new.len() < bytes.len();
        kept.bytes.drain(..excess);
        kept.bytes.extend(new);
    }

    /// Returns the bytes as text of at most the limit. A truncated first character is dropped, and
    /// an incomplete last one while the stream is open. Other invalid UTF-8 is replaced.
    pub(crate) fn text(&self, stream: StreamState) -> TailText {
        let kept = self.lock();
        let mut bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        if kept.truncated {
            // A character has at most three continuation bytes.
            let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            bytes.drain(..rest);
        }
        if stream == StreamState::Open {
            bytes.truncate(complete_len(&bytes));
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        // A replacement character is longer than the byte that it replaces.
        let mut start = text.len().saturating_sub(self.limit);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let truncated = kept.truncated || start > 0;
        TailText { text: text.get(start..).unwrap_or_default().to_owned(), truncated }
    }

    /// A holder does not panic, and the tail is valid after every step.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the length without an incomplete last character.
fn complete_len(bytes: &[u8]) -> usize {
    let mut end = bytes.len();
    let longest = 3;
    for back in 1..=longest.min(bytes.len()) {
        let at = bytes.len() - back;
        match std::str::from_utf8(bytes.get(at..).unwrap_or_default()) {
            // A character begins here and is incomplete.
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => end = at,
            _ => {}
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(limit: usize, pieces: &[&[u8]], stream: StreamState) -> (String, bool) {
        let tail = Tail::new(limit);
        pieces.iter().for_each(|piece| tail.push(piece));
        assert!(tail.lock().bytes.len() <= limit);
        let TailText { text, truncated } = tail.text(stream);
        assert!(text.len() <= limit);
        (text, truncated)
    }

    #[test]
    fn the_tail_begins_with_a_whole_character() {
        let rows: [(usize, &[&[u8]], &str, bool); 11] = [
            (5, &[b"abc"], "abc", false),
            (5, &[b"abc", b"de"], "abcde", false),
            (5, &[b"abc", b"def"], "bcdef", true),
            (5, &[b"abcdefghij"], "fghij", true),
            (5, &["aéöü".as_bytes()], "öü", true),
            (4, &["a🦀🦀".as_bytes()], "🦀", true),
            (3, &["🦀".as_bytes()], "", true),
            (0, &[b"a"], "", true),
            (0, &[], "", false),
            // Invalid bytes are replaced, which takes more room.
            (4, &[b"ab\xff"], "b\u{fffd}", true),
            (5, &[b"ab\xff"], "ab\u{fffd}", false),
        ];
        for (limit, pieces, expected, truncated) in rows {
            let kept = text(limit, pieces, StreamState::Ended);
            assert_eq!(kept, (expected.to_owned(), truncated), "{limit} {pieces:?}");
        }
    }

    #[test]
    fn an_incomplete_last_character_is_held_back() {
        let crab = "🦀".as_bytes();
        for cut in 1..crab.len() {
            let (first, rest) = crab.split_at(cut);
            assert_eq!(text(9, &[b"a", first], StreamState::Open).0, "a");
            assert_eq!(text(9, &[b"a", first], StreamState::Ended).0, "a\u{fffd}");
            assert_eq!(text(9, &[b"a", first, rest], StreamState::Open).0, "a🦀");
        }
        // No character ends like this.
        assert_eq!(text(9, &[b"a\x80"], StreamState::Open).0, "a\u{fffd}");
        assert_eq!(
            text(9, &[b"\x80\x80\x80\x80"], StreamState::Ended).0,
            "\u{fffd}\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn any_tail_is_text_within_the_limit() {
        let whole = "aé€🦀".repeat(9);
        for limit in 0..whole.len() {
            for cut in [1, 3, 7] {
                let pieces: Vec<_> = whole.as_bytes().chunks(cut).collect();
                let (kept, truncated) = text(limit, &pieces, StreamState::Ended);
                assert!(truncated && whole.ends_with(&kept) && kept.len() + 4 > limit);
            }
        }
    }
}
