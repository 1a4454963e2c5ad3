//! The last bytes of a command's output.

use std::collections::VecDeque;

/// The newest bytes of a stream, in bounded memory.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    truncated: bool,
}

/// A tail as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    /// True if earlier output was dropped.
    pub(super) truncated: bool,
}

/// Selects whether the stream may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Open,
    Over,
}

impl Tail {
    /// Creates a tail of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Tail { bytes: VecDeque::new(), limit, truncated: false }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let new = bytes.get(bytes.len().saturating_sub(self.limit)..).unwrap_or_default();
        let excess = (self.bytes.len() + new.len()).saturating_sub(self.limit);
        self.truncated |= excess > 0 || new.len() < bytes.len();
        self.bytes.drain(..excess);
        self.bytes.extend(new);
    }

    /// What is kept as text of at most the limit, from one character to another. What is no UTF-8
    /// is replaced, but not a character that is still on its way.
    pub(super) fn text(&self, stream: Stream) -> Text {
        let mut bytes: Vec<u8> = self.bytes.iter().copied().collect();
        if self.truncated {
            // A character of four bytes leaves at most three that continue it.
            let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            bytes.drain(..rest);
        }
        if stream == Stream::Open {
            bytes.truncate(complete(&bytes));
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        // What was replaced takes more room than it had.
        let mut start = text.len().saturating_sub(self.limit);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let truncated = self.truncated || start > 0;
        Text { text: text.get(start..).unwrap_or_default().to_owned(), truncated }
    }
}

/// How many bytes there are up to a last character that is incomplete.
fn complete(bytes: &[u8]) -> usize {
    let mut end = bytes.len();
    let longest = 3;
    for back in 1..=longest.min(bytes.len()) {
        let at = bytes.len() - back;
        match std::str::from_utf8(bytes.get(at..).unwrap_or_default()) {
            // It begins here and lacks its end.
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => end = at,
            _ => {}
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(limit: usize, pieces: &[&[u8]], stream: Stream) -> (String, bool) {
        let mut tail = Tail::new(limit);
        pieces.iter().for_each(|piece| tail.push(piece));
        assert!(tail.bytes.len() <= limit);
        let Text { text, truncated } = tail.text(stream);
        assert!(text.len() <= limit);
        (text, truncated)
    }

    #[test]
    fn the_end_is_kept_from_a_character_on() {
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
            // What cannot be text is replaced, and takes more room then.
            (4, &[b"ab\xff"], "b\u{fffd}", true),
            (5, &[b"ab\xff"], "ab\u{fffd}", false),
        ];
        for (limit, pieces, expected, truncated) in rows {
            let told = text(limit, pieces, Stream::Over);
            assert_eq!(told, (expected.to_owned(), truncated), "{limit} {pieces:?}");
        }
    }

    #[test]
    fn a_character_on_its_way_is_waited_for() {
        let crab = "🦀".as_bytes();
        for cut in 1..crab.len() {
            let (first, rest) = crab.split_at(cut);
            assert_eq!(text(9, &[b"a", first], Stream::Open).0, "a");
            assert_eq!(text(9, &[b"a", first], Stream::Over).0, "a\u{fffd}");
            assert_eq!(text(9, &[b"a", first, rest], Stream::Open).0, "a🦀");
        }
        // No character ends like this.
        assert_eq!(text(9, &[b"a\x80"], Stream::Open).0, "a\u{fffd}");
        assert_eq!(text(9, &[b"\x80\x80\x80\x80"], Stream::Over).0, "\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn any_cut_of_any_text_is_text_within_the_limit() {
        let whole = "aé€🦀".repeat(9);
        for limit in 0..whole.len() {
            for cut in [1, 3, 7] {
                let pieces: Vec<_> = whole.as_bytes().chunks(cut).collect();
                let (kept, truncated) = text(limit, &pieces, Stream::Over);
                assert!(truncated && whole.ends_with(&kept) && kept.len() + 4 > limit);
            }
        }
    }
}
