//! One message of the launcher in a log, formatted as a line.

use aifo_types::escape_line;
use serde::Deserialize;

use super::clock::Moment;
use crate::paint::Paint;

/// The record of a message. Unknown keys are ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    #[serde(default)]
    time: u64,
    level: Level,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warn,
    Debug,
    #[serde(other)]
    Info,
}

impl Message {
    /// Returns whether it is a warning or an error.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.level, Level::Error | Level::Warn)
    }

    /// Time, level, text.
    pub(crate) fn line(&self, paint: Paint) -> String {
        let level = match self.level {
            Level::Error => "error",
            Level::Warn => "warning",
            Level::Info => "notice",
            Level::Debug => "debug",
        };
        let level = format!("{level:<9}");
        let level = if self.has_failed() { paint.bad(level) } else { paint.faint(level) };
        let time = paint.faint(Moment::from_unix_ms(self.time));
        format!("{time}  {level}  {}\n", escape_line(&self.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_level() {
        let rows = [
            ("error", "1970-01-01 00:00:00Z  error      a\\u{1b}\n", true),
            ("warn", "1970-01-01 00:00:00Z  warning    a\\u{1b}\n", true),
            ("info", "1970-01-01 00:00:00Z  notice     a\\u{1b}\n", false),
            ("debug", "1970-01-01 00:00:00Z  debug      a\\u{1b}\n", false),
            ("another", "1970-01-01 00:00:00Z  notice     a\\u{1b}\n", false),
        ];
        for (level, expected, has_failed) in rows {
            let json = format!(r#"{{"time":0,"level":"{level}","message":"a\u001b"}}"#);
            let message: Message = serde_json::from_str(&json).unwrap();
            assert_eq!(message.line(Paint::Plain), expected);
            assert_eq!(message.has_failed(), has_failed, "{level}");
        }
    }
}
