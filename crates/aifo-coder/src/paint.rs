//! Answers on stdout: colour for people, and an early end when nobody reads on.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anyhow::Context;

/// Whether colours may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    Colours,
    Plain,
}

impl Paint {
    /// Colours on a terminal, unless `NO_COLOR` is set to anything.
    pub(crate) fn of_stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if io::stdout().is_terminal() && !unwanted { Paint::Colours } else { Paint::Plain }
    }

    pub(crate) fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn faint(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        match self {
            Paint::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
            Paint::Plain => text.to_string(),
        }
    }
}

/// Prints an answer. A reader that has gone has read enough.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot write to stdout"),
    }
}

/// Prints a value as indented JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Rows in columns, two spaces between them; the last column is not padded. Control characters are
/// escaped, so that a row stays a row.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| crate::console::plain(cell))).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text += padded.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["a", "é", "x"], ["long", "b\n", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "a     é    x\nlong  b\\n\n");
    }
}
