//! The exit of a command, as its answer states it.

use std::fmt;

/// An exit code with an optional reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandExit {
    /// The client's exit code.
    pub code: u8,
    /// `None` if the command exited by itself.
    pub reason: Option<ExitReason>,
}

/// Why a command has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// This signal ended it.
    Signal(u8),
    /// It exceeded the time limit.
    Timeout,
    /// The daemon was shut down.
    Shutdown,
    /// It exceeded the output limit.
    Output,
    /// Its runner or daemon was lost.
    Lost,
    /// Nothing ran.
    Refused,
}

const REASONS: [(ExitReason, &str); 5] = [
    (ExitReason::Timeout, "timeout"),
    (ExitReason::Shutdown, "shutdown"),
    (ExitReason::Output, "output"),
    (ExitReason::Lost, "lost"),
    (ExitReason::Refused, "refused"),
];

impl CommandExit {
    /// Parses the content of the two files. `None` if the exit code is invalid.
    pub fn parse(exit: &[u8], reason: Option<&[u8]>) -> Option<Self> {
        let exit = exit.trim_ascii();
        let digits = exit.iter().all(u8::is_ascii_digit);
        let code = std::str::from_utf8(exit).ok().filter(|_| digits)?.parse().ok()?;
        Some(CommandExit { code, reason: reason.and_then(ExitReason::parse) })
    }
}

impl ExitReason {
    /// Parses the output of [`fmt::Display`].
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        if let Some(number) = text.strip_prefix("signal ") {
            return number.parse().ok().map(ExitReason::Signal);
        }
        REASONS.iter().find(|(_, word)| *word == text).map(|(reason, _)| *reason)
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ExitReason::Signal(number) = self {
            return write!(f, "signal {number}");
        }
        let word = REASONS.iter().find(|(reason, _)| reason == self).map_or("", |row| row.1);
        f.write_str(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_parsed_as_displayed() {
        let all =
            [ExitReason::Signal(9), ExitReason::Timeout, ExitReason::Shutdown, ExitReason::Output];
        for reason in all.into_iter().chain([ExitReason::Lost, ExitReason::Refused]) {
            let text = reason.to_string();
            assert!(!text.is_empty());
            assert_eq!(ExitReason::parse(text.as_bytes()), Some(reason));
        }
        for text in ["", "signal", "signal x", "signal 256", "what"] {
            assert_eq!(ExitReason::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_exit_code_has_only_digits() {
        let rows: [(&[u8], Option<u8>); 7] = [
            (b"0", Some(0)),
            (b"255\n", Some(255)),
            (b"", None),
            (b"256", None),
            (b"-1", None),
            (b"+1", None),
            (b"\xff", None),
        ];
        for (exit, code) in rows {
            assert_eq!(CommandExit::parse(exit, None).map(|ending| ending.code), code, "{exit:?}");
        }
        let killed = CommandExit::parse(b"137", Some(b"signal 9")).unwrap();
        assert_eq!(killed.reason, Some(ExitReason::Signal(9)));
    }
}
