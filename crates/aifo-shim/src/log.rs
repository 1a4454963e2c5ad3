//! Messages of the shim on stderr, one line each.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use aifo_process::terminal;
use aifo_types::escape_line;
use nix::libc;

/// Prints one line. On a terminal, clears the current line first.
pub(crate) fn line(text: impl Display) {
    line_of("aifo-shim", text);
}

/// Prints one line that is not about the call itself.
pub(crate) fn notice(text: impl Display) {
    line_of("aifo", text);
}

fn line_of(sender: &str, text: impl Display) {
    let mut stderr = std::io::stderr().lock();
    let clear = if stderr.is_terminal() { CLEAR } else { "" };
    // One write per line, so that lines of several processes do not mix.
    let line = format!("{clear}{sender}: {}\n", one_line(&text.to_string()));
    // A failed write to stderr cannot be reported.
    let _ = stderr.write_all(line.as_bytes());
}

/// Prints one line about a decision, unless a program draws on the terminal.
pub(crate) fn verbose(text: impl Display) {
    if !is_drawn_on() {
        line(text);
    }
}

/// Prints one line about a call that waits for a user, unless a program draws on the terminal.
pub(crate) fn waits_for_approval(call: &str) {
    if !is_drawn_on() {
        notice(format_args!("waiting for approval: {call}"));
    }
}

/// Prints the lines of a text on stdout, for the launcher.
pub(crate) fn to_launcher(text: &impl Display) {
    let text = text.to_string();
    let lines: Vec<_> = text.lines().map(escape_line).collect();
    // The launcher reads until the end.
    let _ = std::io::stdout().write_all(lines.join("\n").as_bytes());
}

/// A progress message on a terminal. Drop removes it.
#[derive(Debug)]
pub(crate) struct Progress(());

impl Progress {
    /// Shows a message if stderr is a terminal that no program draws on.
    pub(crate) fn show(text: &str) -> Option<Self> {
        let mut stderr = std::io::stderr().lock();
        if !stderr.is_terminal() || is_drawn_on() {
            return None;
        }
        let line = format!("{CLEAR}aifo-shim: {} ...", one_line(text));
        let _ = stderr.write_all(line.as_bytes());
        Some(Progress(()))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !is_drawn_on() {
            let _ = std::io::stderr().write_all(CLEAR.as_bytes());
        }
    }
}

/// Returns whether stderr is a terminal without line editing or echo: an editor, an agent or another
/// program with a user interface has it, and positions its text.
pub(crate) fn is_drawn_on() -> bool {
    let stderr = std::io::stderr();
    let cooked = libc::ICANON | libc::ECHO;
    terminal::modes(stderr.as_fd()).is_ok_and(|modes| modes.local & cooked != cooked)
}

/// Returns to the line's start and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// Escapes text for a terminal; a line end becomes `; `.
fn one_line(text: &str) -> String {
    text.trim_end().split('\n').map(escape_line).collect::<Vec<_>>().join("; ")
}
