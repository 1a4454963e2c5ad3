//! The title of the terminal (xterm's `XTWINOPS` 22 and 23, and `OSC 2`).

use std::io::{IsTerminal, Write};

use aifo_types::escape_line;

/// A title in place of the terminal's own, which the drop brings back.
#[derive(Debug)]
pub struct Title(());

impl Title {
    /// Shows a title, also while a program draws on the terminal; `None` if stderr is no terminal.
    pub fn show(text: &str) -> Option<Self> {
        let mut stderr = std::io::stderr().lock();
        if !stderr.is_terminal() {
            return None;
        }
        // One write, so that it does not get into a sequence of the program.
        let _ = stderr.write_all(shown(text).as_bytes());
        Some(Title(()))
    }
}

impl Drop for Title {
    fn drop(&mut self) {
        let _ = std::io::stderr().lock().write_all(RESTORE.as_bytes());
    }
}

fn shown(text: &str) -> String {
    format!("{SAVE}\x1b]2;{}\x07", escape_line(text))
}

/// Puts the title on the terminal's stack.
const SAVE: &str = "\x1b[22;2t";
/// Takes it from there.
const RESTORE: &str = "\x1b[23;2t";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_sequence() {
        assert_eq!(shown("a\x07b\x1b"), "\x1b[22;2t\x1b]2;a\\u{7}b\\u{1b}\x07");
    }
}
