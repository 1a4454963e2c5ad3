//! What the shim itself has to say: on stderr, one line each. stdout is the tool's.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Prints one line, set off from half a line that may stand on a terminal.
pub(crate) fn line(text: impl Display) {
    let mut stderr = std::io::stderr().lock();
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    // Formatted first, so that it leaves in one write and is not mixed with others.
    let line = format!("{clear}aifo-shim: {}\n", escape_control(&text.to_string()));
    // Nobody is left to be told that stderr is gone.
    let _ = stderr.write_all(line.as_bytes());
}

/// Tells a person what takes so long. Nobody else needs to know.
pub(crate) fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        line(format_args!("{text} ..."));
    }
}

/// Text without what could end the line or speak to the terminal.
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
