//! Finds the detach keys in typed input (`spec/attach.md#the-clients-terminal`).

use std::time::{Duration, Instant};

use crate::encoded_key::{InputStart, Key, split_key};

/// The time for the second key.
const SECOND_KEY: Duration = Duration::from_secs(1);
const BEGIN: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";

/// Holds the first key back until the second one or a timeout.
#[derive(Debug, Default)]
pub(crate) struct DetachKeys {
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
    /// Takes typed bytes.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], now: Instant) -> Typed {
        let mut input = Vec::new();
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
                InputStart::Key { key: Key::Ctrl(b'd') | Key::Plain(b'd'), .. }
                    if self.held.is_some() =>
                {
                    return Typed::Detach(input);
                }
                InputStart::Key { key: Key::Ctrl(b'\\'), .. } if !self.is_pasting => {
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
        let mut keys = DetachKeys::default();
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
    fn the_first_key_has_a_deadline() {
        let (mut keys, now) = (DetachKeys::default(), Instant::now());
        assert_eq!(keys.deadline(), None);
        assert_eq!(keys.receive(b"\x1c", now), Typed::Input(Vec::new()));
        assert_eq!(keys.deadline(), Some(now + SECOND_KEY));
        assert_eq!(keys.take(), b"\x1c");
        assert_eq!(keys.deadline(), None);
    }
}
