//! The size and modes of a terminal.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The size of a terminal (`struct winsize`), in cells and pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
    /// Width in pixels, 0 if unknown.
    pub x_pixels: u16,
    /// Height in pixels, 0 if unknown.
    pub y_pixels: u16,
}

impl fmt::Display for WindowSize {
    /// Its cells, such as `80x24`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.columns, self.rows)
    }
}

impl FromStr for WindowSize {
    type Err = InvalidWindowSize;

    /// Parses the form of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('x').and_then(|(columns, rows)| {
            let (columns, rows) = (columns.parse().ok()?, rows.parse().ok()?);
            Some(WindowSize { rows, columns, ..WindowSize::default() })
        });
        parsed.ok_or_else(|| InvalidWindowSize(text.to_owned()))
    }
}

/// The error for an invalid terminal size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidWindowSize(String);

impl fmt::Display for InvalidWindowSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid terminal size '{}': expected COLUMNSxROWS, such as 80x24", self.0)
    }
}

impl Error for InvalidWindowSize {}

/// The modes of a terminal: the flags of `struct termios` as Linux bits, and its control characters
/// in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalModes {
    /// `c_iflag`
    pub input: u32,
    /// `c_oflag`
    pub output: u32,
    /// `c_cflag`
    pub control: u32,
    /// `c_lflag`
    pub local: u32,
    /// `c_cc`
    pub characters: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_as_it_is_written() {
        let size = WindowSize { rows: 24, columns: 200, ..WindowSize::default() };
        assert_eq!(size.to_string(), "200x24");
        assert_eq!("200x24".parse(), Ok(size));
        for text in ["", "80", "x24", "80x", "80x24x1", "-1x24", "65536x24"] {
            assert!(text.parse::<WindowSize>().is_err(), "{text}");
        }
    }
}
