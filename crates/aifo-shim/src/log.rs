//! Messages of the shim on stderr, one line each.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Prints one line. On a terminal, clears the current line first.
pub(crate) fn line(text: impl Display) {
    let mut stderr = std::io::stderr().lock();
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    // One write per line, so that lines of several processes do not mix.
    let line = format!("{clear}aifo-shim: {}\n", escape_control(&text.to_string()));
    // A failed write to stderr cannot be reported.
    let _ = stderr.write_all(line.as_bytes());
}

/// Prints a progress message if stderr is a terminal.
pub(crate) fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        line(format_args!("{text} ..."));
    }
}

/// Escapes control characters; a line end becomes `; `.
fn escape_control(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.trim_end().chars() {
        match character {
            '\n' => line.push_str("; "),
            character if character.is_control() => line.extend(character.escape_default()),
            character => line.push(character),
        }
    }
    line
}
