//! Escapes of half a surrogate pair, which JSON allows and Rust strings cannot hold.

use std::io::{self, Read};

use memchr::memchr;

/// A JSON text in which each such escape reads as `\ufffd`, which is as long: no copy is needed.
pub(super) struct Repaired<'a> {
    text: &'a [u8],
    at: usize,
    /// The next such escape, at or after `at`.
    half: Option<usize>,
}

impl<'a> Repaired<'a> {
    /// Returns `None` for a text without such an escape.
    pub(super) fn new(text: &'a str) -> Option<Self> {
        let text = text.as_bytes();
        let half = next_half(text, 0)?;
        Some(Repaired { text, at: 0, half: Some(half) })
    }
}

impl Read for Repaired<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let source = match self.half.map(|half| self.at.checked_sub(half)) {
            None => rest,
            // Before the escape.
            Some(None) => {
                let before = self.half.unwrap_or_default().saturating_sub(self.at);
                rest.get(..before).unwrap_or(rest)
            }
            // Within the escape.
            Some(Some(done)) => REPLACEMENT.get(done..).unwrap_or_default(),
        };
        let count = source.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), source.get(..count)) {
            to.copy_from_slice(from);
        }
        self.at = self.at.saturating_add(count);
        if let Some(half) = self.half
            && self.at >= half.saturating_add(ESCAPE)
        {
            self.half = next_half(self.text, self.at);
        }
        Ok(count)
    }
}

/// Returns the offset of the first such escape at or after `at`.
fn next_half(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = at.checked_add(memchr(b'\\', text.get(at..)?)?)?;
        let length = match (unit(text, at), unit(text, at.checked_add(ESCAPE)?)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => ESCAPE.saturating_mul(2),
            (Some(0xd800..=0xdfff), _) => return Some(at),
            // A backslash and the escaped character.
            _ => 2,
        };
        at = at.checked_add(length)?;
    }
}

/// Parses the UTF-16 code unit of the `\uXXXX` at an offset.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(ESCAPE)?)?.strip_prefix(b"\\u")?;
    let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
    let unit = digits.reduce(|unit, digit| unit?.checked_mul(16)?.checked_add(digit?))?;
    u16::try_from(unit?).ok()
}

const REPLACEMENT: &[u8; ESCAPE] = b"\\ufffd";
/// The length of `\uXXXX`, in bytes.
const ESCAPE: usize = 6;
