//! Single keys of the terminal on stdin.

use std::io::Read;
use std::os::fd::AsFd;

use aifo_launch::Answer;
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
    fn of(byte: u8) -> Self {
        match byte {
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
            let mut byte = [0];
            while matches!(std::io::stdin().read(&mut byte), Ok(1)) {
                if sender.send(Key::of(byte[0])).is_err() {
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
