//! Output on stdout, with colours on a terminal. A closed pipe ends it without an error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use aifo_types::{escape_json, escape_line, escape_text};

/// Selects whether colours may be used.
#[derive(Clone, Copy, Debug)]
pub enum Paint {
    /// Coloured text.
    Colours,
    /// Text as it is.
    Plain,
}

impl Paint {
    /// Colours on a terminal, unless `NO_COLOR` is set to anything.
    pub fn of_stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if io::stdout().is_terminal() && !unwanted { Paint::Colours } else { Paint::Plain }
    }

    /// Text about a failure.
    pub fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    /// Text about a success.
    pub fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// Text beside what matters.
    pub fn faint(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        match self {
            Paint::Colours => format!("{COLOUR}{code}m{text}{COLOUR_END}"),
            Paint::Plain => text.to_string(),
        }
    }
}

/// Prints text with control characters escaped, except for colours. Ignores a closed pipe.
pub fn print(text: &str) -> io::Result<()> {
    to_end(write(text))
}

/// Prints a value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    to_end(write_json(&(serde_json::to_string_pretty(value)? + "\n")))
}

/// Writes text as [`fn@print`] does. Errors: those of stdout.
pub fn write(text: &str) -> io::Result<()> {
    write_as_is(&escape_but_colours(text))
}

/// Writes JSON, the characters in its strings escaped. Errors: those of stdout.
pub fn write_json(json: &str) -> io::Result<()> {
    write_as_is(&escape_json(json))
}

fn write_as_is(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

fn to_end(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Escapes text for a terminal, except for the colour codes that `Paint` uses.
fn escape_but_colours(text: &str) -> String {
    let is_colour = |rest: &&str| {
        let code = rest.split_once('m').map_or("", |(code, _)| code);
        ["0", "2", "31", "32"].contains(&code)
    };
    let mut parts = text.split(COLOUR);
    let mut escaped = escape_text(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        if is_colour(&part) {
            escaped += COLOUR;
        } else {
            escaped += &escape_text(COLOUR);
        }
        escaped += &escape_text(part);
    }
    escaped
}

const COLOUR: &str = "\x1b[";
const COLOUR_END: &str = "\x1b[0m";

/// Rows in columns, two spaces between them; the last column is not padded. Control characters are
/// escaped, so that a row stays a row.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| escape_line(cell))).collect();
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
    fn control_characters_except_colours_are_escaped() {
        let ours = Paint::Colours.bad("x") + &Paint::Colours.good("y") + &Paint::Colours.faint("z");
        assert_eq!(escape_but_colours(&ours), ours);
        let rows = [
            ("a\n\tb", "a\n\tb"),
            ("\x1b[2J\x1b]52;c;x\x07", r"\u{1b}[2J\u{1b}]52;c;x\u{7}"),
            ("\x1b[31;5mx\x1b[", r"\u{1b}[31;5mx\u{1b}["),
            ("\u{202e}x", r"\u{202e}x"),
        ];
        for (text, expected) in rows {
            assert_eq!(escape_but_colours(text), expected);
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["a", "é", "x"], ["long", "b\n", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "a     é    x\nlong  b\\n\n");
    }
}
