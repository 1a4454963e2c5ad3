//! Finds the detach keys in typed input (`spec/attach.md#the-clients-terminal`).

use std::fmt;
use std::time::{Duration, Instant};

use crate::encoded_key::{InputStart, Key, split_key};

/// The time for the second key.
const SECOND_KEY: Duration = Duration::from_secs(1);
const BEGIN: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";

/// The two keys that leave a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetachSequence {
    /// The first key, with Ctrl.
    first: u8,
    /// The second key: with or without Ctrl.
    second: u8,
}

impl Default for DetachSequence {
    /// Ctrl-\ and d.
    fn default() -> Self {
        DetachSequence { first: b'\\', second: b'd' }
    }
}

impl DetachSequence {
    /// Parses `ctrl-KEY,KEY`: the first key is a letter or one of `\ ] ^ _`, the second one a letter, also
    /// as `ctrl-KEY`.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, second) = text.split_once(',')?;
        let first = single(first.trim().strip_prefix("ctrl-")?)?;
        let second = second.trim();
        let second = single(second.strip_prefix("ctrl-").unwrap_or(second))?;
        let is_first = first.is_ascii_lowercase() || b"\\]^_".contains(&first);
        // Terminals send these as Tab, Return and line feed.
        let is_taken = b"ijm".contains(&first);
        (is_first && !is_taken && second.is_ascii_lowercase())
            .then_some(DetachSequence { first, second })
    }
}

impl fmt::Display for DetachSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ctrl-{},{}", char::from(self.first), char::from(self.second))
    }
}

fn single(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] => Some(byte.to_ascii_lowercase()),
        _ => None,
    }
}

/// Holds the first key back until the second one or a timeout.
#[derive(Debug, Default)]
pub(crate) struct DetachKeys {
    /// `None` leaves by no key.
    sequence: Option<DetachSequence>,
    /// The first key's bytes, and when to pass them on.
    held: Option<(Vec<u8>, Instant)>,
    is_pasting: bool,
}

/// The result of typed input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// These bytes are for the command.
    Input(Vec<u8>),
    /// The user leaves; these bytes came before.
    Detach(Vec<u8>),
}

impl DetachKeys {
    pub(crate) fn new(sequence: Option<DetachSequence>) -> Self {
        DetachKeys { sequence, ..DetachKeys::default() }
    }

    /// Takes typed bytes.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], now: Instant) -> Typed {
        let mut input = Vec::new();
        let (first, second) =
            self.sequence.map_or((None, None), |keys| (Some(keys.first), Some(keys.second)));
        while !bytes.is_empty() {
            if bytes.starts_with(BEGIN) {
                self.is_pasting = true;
            } else if bytes.starts_with(END) {
                self.is_pasting = false;
            }
            let start = split_key(bytes);
            let (InputStart::Key { length, .. }
            | InputStart::Release { length }
            | InputStart::Other { length }) = start;
            let (this, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            match start {
                InputStart::Key { key: Key::Ctrl(key) | Key::Plain(key), .. }
                    if self.held.is_some() && second == Some(key) =>
                {
                    return Typed::Detach(input);
                }
                InputStart::Key { key: Key::Ctrl(key), .. }
                    if !self.is_pasting && first == Some(key) =>
                {
                    input.extend(self.take());
                    self.held = Some((this.to_vec(), now + SECOND_KEY));
                }
                // The first key's release comes between.
                InputStart::Release { .. } if self.held.is_some() => {
                    if let Some((held, _)) = &mut self.held {
                        held.extend(this);
                    }
                }
                _ => {
                    input.extend(self.take());
                    input.extend(this);
                }
            }
        }
        Typed::Input(input)
    }

    /// Returns when the first key is to be passed on.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|(_, deadline)| *deadline)
    }

    /// Returns the bytes that were held back.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.held.take().map(|(bytes, _)| bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(chunks: &[&[u8]]) -> (Vec<u8>, bool) {
        typed_by(DetachSequence::default(), chunks)
    }

    fn typed_by(sequence: DetachSequence, chunks: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut keys = DetachKeys::new(Some(sequence));
        let mut all = Vec::new();
        for chunk in chunks {
            match keys.receive(chunk, Instant::now()) {
                Typed::Input(bytes) => all.extend(bytes),
                Typed::Detach(bytes) => {
                    all.extend(bytes);
                    return (all, true);
                }
            }
        }
        all.extend(keys.take());
        (all, false)
    }

    #[test]
    fn detach_keys_and_others() {
        type Row = (&'static [&'static [u8]], &'static [u8], bool);
        let rows: [Row; 10] = [
            (&[b"ls\x1c\x04more"], b"ls", true),
            (&[b"\x1c", b"d"], b"", true),
            (&[b"\x1b[92;5u", b"\x1b[92;5:3u", b"\x1b[100;5u"], b"", true),
            (&[b"\x1b[27;5;92~\x1b[27;5;100~"], b"", true),
            (&[b"\x1c", b"x"], b"\x1cx", false),
            (&[b"\x1c"], b"\x1c", false),
            (&[b"\x1c\x1c\x04"], b"\x1c", true),
            (&[b"\x1b[92;5u\x1b[92;5:3u\x1b[A"], b"\x1b[92;5u\x1b[92;5:3u\x1b[A", false),
            (&[b"\x04d"], b"\x04d", false),
            (&[b"\x1b[200~\x1c\x04\x1b[201~"], b"\x1b[200~\x1c\x04\x1b[201~", false),
        ];
        for (chunks, input, leaves) in rows {
            assert_eq!(typed(chunks), (input.to_vec(), leaves), "{chunks:?}");
        }
    }

    #[test]
    fn chosen_keys_leave_and_others_pass() {
        for text in ["ctrl-p,q", "ctrl-p,ctrl-q", "ctrl-P, Q"] {
            let keys = DetachSequence::parse(text).unwrap();
            assert_eq!(keys.to_string(), "ctrl-p,q");
            assert_eq!(typed_by(keys, &[b"a\x10\x11"]), (b"a".to_vec(), true));
            assert_eq!(typed_by(keys, &[b"\x10", b"q"]), (Vec::new(), true));
            assert_eq!(typed_by(keys, &[b"\x1c\x04\x10d"]), (b"\x1c\x04\x10d".to_vec(), false));
        }
        assert_eq!(DetachSequence::parse("ctrl-\\,d"), Some(DetachSequence::default()));
        for text in
            ["", "p,q", "ctrl-p", "ctrl-,q", "ctrl-pp,q", "ctrl-p,1", "ctrl-m,q", "ctrl-[,q"]
        {
            assert_eq!(DetachSequence::parse(text), None, "{text}");
        }
        let mut none = DetachKeys::new(None);
        let typed = none.receive(b"\x1c\x04", Instant::now());
        assert_eq!(typed, Typed::Input(b"\x1c\x04".to_vec()));
    }

    #[test]
    fn the_first_key_has_a_deadline() {
        let (mut keys, now) = (DetachKeys::new(Some(DetachSequence::default())), Instant::now());
        assert_eq!(keys.deadline(), None);
        assert_eq!(keys.receive(b"\x1c", now), Typed::Input(Vec::new()));
        assert_eq!(keys.deadline(), Some(now + SECOND_KEY));
        assert_eq!(keys.take(), b"\x1c");
        assert_eq!(keys.deadline(), None);
    }
}
