//! Messages of the shim on stderr, one line each.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use aifo_types::escape_line;

/// Prints one line. On a terminal, clears the current line first.
pub(crate) fn line(text: impl Display) {
    let mut stderr = std::io::stderr().lock();
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    // One write per line, so that lines of several processes do not mix.
    let line = format!("{clear}aifo-shim: {}\n", one_line(&text.to_string()));
    // A failed write to stderr cannot be reported.
    let _ = stderr.write_all(line.as_bytes());
}

/// Prints the lines of a text on stdout, for the launcher.
pub(crate) fn to_launcher(text: &impl Display) {
    let text = text.to_string();
    let lines: Vec<_> = text.lines().map(escape_line).collect();
    // The launcher reads until the end.
    let _ = std::io::stdout().write_all(lines.join("\n").as_bytes());
}

/// Prints a progress message if stderr is a terminal.
pub(crate) fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        line(format_args!("{text} ..."));
    }
}

/// Escapes text for a terminal; a line end becomes `; `.
fn one_line(text: &str) -> String {
    text.trim_end().split('\n').map(escape_line).collect::<Vec<_>>().join("; ")
}
