//! Single keys of the terminal on stdin.

use std::io::Read;
use std::os::fd::AsFd;

use aifo_policy::Answer;
use aifo_process::terminal;
use aifo_types::TerminalModes;
use anyhow::Context;
use tokio::sync::mpsc;

/// A pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Answer(Answer),
    Quit,
    Other,
}

impl Key {
    /// Returns the key of the bytes that arrived together. An answer is a byte alone: more are a paste, or
    /// the sequence of another key.
    fn of(bytes: &[u8]) -> Self {
        let [byte] = bytes else {
            let is_end = bytes.iter().any(|byte| [END_OF_TEXT, END_OF_TRANSMISSION].contains(byte));
            return if is_end { Key::Quit } else { Key::Other };
        };
        match *byte {
            b'y' => Key::Answer(Answer::Once),
            b's' => Key::Answer(Answer::Session),
            b'a' => Key::Answer(Answer::Always),
            b'n' => Key::Answer(Answer::Deny),
            b'e' => Key::Answer(Answer::DenyAndEnd),
            b'q' | END_OF_TEXT | END_OF_TRANSMISSION => Key::Quit,
            _ => Key::Other,
        }
    }
}

/// Ctrl-C and Ctrl-D.
const END_OF_TEXT: u8 = 3;
const END_OF_TRANSMISSION: u8 = 4;

/// Reads keys from stdin. Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Keys {
    before: TerminalModes,
    pressed: mpsc::UnboundedReceiver<Key>,
}

impl Keys {
    pub(super) fn read() -> anyhow::Result<Self> {
        let stdin = std::io::stdin();
        let before = terminal::modes(stdin.as_fd()).context("cannot read the terminal's modes")?;
        let mut modes = terminal::raw(&before);
        // Lines still end in a return and a line feed.
        modes.output = before.output;
        terminal::set_modes(stdin.as_fd(), &modes).context("cannot set the terminal's modes")?;
        let (sender, pressed) = mpsc::unbounded_channel();
        // Ends with the process: a read of a terminal cannot be cancelled.
        std::thread::spawn(move || {
            let mut bytes = [0; 8192];
            while let Ok(count @ 1..) = std::io::stdin().read(&mut bytes) {
                if sender.send(Key::of(bytes.get(..count).unwrap_or_default())).is_err() {
                    return;
                }
            }
        });
        Ok(Keys { before, pressed })
    }

    /// Waits for a key; the end of the terminal is [`Key::Quit`]. Cancel-safe.
    pub(super) async fn next(&mut self) -> Key {
        self.pressed.recv().await.unwrap_or(Key::Quit)
    }

    pub(super) fn restore(&self) {
        // Fails only without a terminal.
        let _ = terminal::set_modes(std::io::stdin().as_fd(), &self.before);
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_key_alone() {
        assert_eq!(Key::of(b"y"), Key::Answer(Answer::Once));
        assert_eq!(Key::of(b"e"), Key::Answer(Answer::DenyAndEnd));
        // Alt+Y, keys of a keypad in application mode, pastes.
        for bytes in ["\x1by", "\x1bOs", "\x1bOn", "yes", "y\r", "\x1b[200~y"] {
            assert_eq!(Key::of(bytes.as_bytes()), Key::Other, "{bytes:?}");
        }
        assert_eq!(Key::of(b"yy\x03"), Key::Quit);
    }
}
