//! The terminal on stderr: lines, a status line, and a hold while another program has it
//! (`spec/cli.md#the-agents-terminal`).

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aifo_process::terminal::window_size;
use tracing::Level;

static SCREEN: Mutex<Screen> =
    Mutex::new(Screen { status: String::new(), shows_progress: false, held: None });

struct Screen {
    /// The last line on the terminal, without a line end; empty for none.
    status: String,
    shows_progress: bool,
    held: Option<Held>,
}

/// A command has the terminal.
struct Held {
    log: Log,
    /// Lines must not be printed now.
    is_terminal: bool,
    lines: HeldLines,
}

/// Warnings and errors that were not printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HeldLines {
    /// The first different ones, at most 5.
    pub lines: Vec<String>,
    /// The number of others.
    pub more: usize,
}

/// A summary shows no more lines.
const MAX_LINES: usize = 5;

/// Takes the lines of a session log.
pub type Log = Box<dyn Fn(Level, &str) + Send>;

/// Copies lines to a session log until it is dropped, and keeps them off the terminal until it is
/// released.
pub struct Hold(());

/// Leaves the terminal to a command. If stderr is no terminal, lines are still printed.
pub fn hold(log: Log) -> Hold {
    set_status("");
    let is_terminal = std::io::stderr().is_terminal();
    screen().held = Some(Held { log, is_terminal, lines: HeldLines::default() });
    Hold(())
}

impl Hold {
    /// Returns the terminal to the launcher, and what was not printed.
    pub fn release(&mut self) -> HeldLines {
        let mut screen = screen();
        let Some(held) = &mut screen.held else { return HeldLines::default() };
        held.is_terminal = false;
        std::mem::take(&mut held.lines)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        screen().held = None;
    }
}

impl HeldLines {
    fn keep(&mut self, level: Level, line: &str, later: Later) {
        if matches!(level, Level::ERROR | Level::WARN) && later == Later::Shown {
            self.add(line);
        }
    }

    fn add(&mut self, line: &str) {
        if self.lines.iter().any(|known| known == line) || self.lines.len() == MAX_LINES {
            self.more += 1;
        } else {
            self.lines.push(line.to_owned());
        }
    }
}

/// Prints lines. A held terminal gets none.
pub(super) fn print(level: Level, lines: &str) {
    let mut screen = screen();
    screen.record(level, lines);
    if !screen.keep(level, lines, Later::Shown) {
        screen.write(lines);
    }
}

/// As [`print()`], for lines that the end of the session has again: a held terminal does not get them later.
pub(super) fn print_or_record(level: Level, lines: &str) {
    let mut screen = screen();
    screen.record(level, lines);
    if !screen.keep(level, lines, Later::Omitted) {
        screen.write(lines);
    }
}

/// Whether a line is shown once a held terminal is released.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    Shown,
    Omitted,
}

/// Writes lines to the log of a session whose command runs, and nowhere else.
pub(super) fn record(level: Level, lines: &str) {
    screen().record(level, lines);
}

/// Sets the line that replaces itself, on a terminal that shows progress; empty removes it.
pub fn set_status(text: &str) {
    let mut screen = screen();
    if !screen.shows_progress || screen.held.is_some() || screen.status == text {
        return;
    }
    let stderr = std::io::stderr();
    if !stderr.is_terminal() {
        return;
    }
    // A wrapped line could not be removed.
    let columns = window_size(stderr.as_fd()).map_or(0, |size| usize::from(size.columns));
    let width = if columns == 0 { MAX_WIDTH } else { MAX_WIDTH.min(columns - 1) };
    screen.status = text.chars().take(width).collect();
    write(&format!("{CLEAR}{}", screen.status));
}

/// Lets [`set_status`] draw.
pub(super) fn show_progress() {
    screen().shows_progress = true;
}

/// Records panics of tasks while a command has the terminal, instead of printing them.
pub(super) fn report_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let held = SCREEN.try_lock().is_ok_and(|mut screen| {
            let text = aifo_types::escape_line(&panic.to_string());
            screen.record(Level::ERROR, &text);
            let held = screen.held.as_mut().filter(|held| held.is_terminal);
            held.map(|held| held.lines.add(&text)).is_some()
        });
        if !held {
            default(panic);
        }
    }));
}

impl Screen {
    /// Keeps a line off a held terminal. `false` if none is held.
    fn keep(&mut self, level: Level, lines: &str, later: Later) -> bool {
        let Some(held) = self.held.as_mut().filter(|held| held.is_terminal) else { return false };
        held.lines.keep(level, lines, later);
        true
    }

    fn write(&self, lines: &str) {
        let (clear, status) = match std::io::stderr().is_terminal() {
            true => (CLEAR, self.status.as_str()),
            false => ("", ""),
        };
        write(&format!("{clear}{lines}\n{status}"));
    }

    fn record(&self, level: Level, lines: &str) {
        if let Some(held) = &self.held {
            (held.log)(level, lines.strip_prefix("aifo-coder: ").unwrap_or(lines));
        }
    }
}

fn screen() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(text: &str) {
    // A closed stderr has no reader.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Returns to the line's start and clears it: a terminal may show another program's partial line.
const CLEAR: &str = "\r\x1b[K";

/// Columns of the status line.
const MAX_WIDTH: usize = 78;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_lines_are_bounded_and_different() {
        let mut held = HeldLines::default();
        for line in ["a", "b", "a", "c", "d", "e", "f", "a"] {
            held.add(line);
        }
        assert_eq!(held.lines, ["a", "b", "c", "d", "e"]);
        assert_eq!(held.more, 3);
    }

    #[test]
    fn a_held_terminal_gets_no_line_that_the_summary_has() {
        let mut held = HeldLines::default();
        held.keep(Level::WARN, "refused", Later::Omitted);
        held.keep(Level::INFO, "ready", Later::Shown);
        held.keep(Level::WARN, "lost", Later::Shown);
        assert_eq!((held.lines, held.more), (vec!["lost".to_owned()], 0));
    }
}
