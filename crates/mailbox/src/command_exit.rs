//! How a command ended, as its client is told.

use std::fmt;

/// The exit code, and what it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandExit {
    /// What the client exits with.
    pub code: u8,
    /// Why, unless the command just exited so.
    pub reason: Option<ExitReason>,
}

/// Why a command ended as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The signal of this number ended it.
    Signal(u8),
    /// It ran into the time limit.
    Timeout,
    /// The daemon was told to end.
    Shutdown,
    /// It printed more than anybody reads.
    Output,
    /// Whoever ran it was lost.
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
    /// Reads what stands in the two files; `None` if that is no exit code.
    pub fn parse(exit: &[u8], reason: Option<&[u8]>) -> Option<Self> {
        let exit = exit.trim_ascii();
        let digits = exit.iter().all(u8::is_ascii_digit);
        let code = std::str::from_utf8(exit).ok().filter(|_| digits)?.parse().ok()?;
        Some(CommandExit { code, reason: reason.and_then(ExitReason::parse) })
    }
}

impl ExitReason {
    /// Reads what [`fmt::Display`] writes.
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
    fn reasons_are_words() {
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
    fn only_digits_are_an_exit_code() {
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
