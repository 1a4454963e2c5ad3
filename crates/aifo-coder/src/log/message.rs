//! One message of the launcher in a log, formatted as a line.

use aifo_host::{LoggedMessage, MessageLevel};
use aifo_terminal::clock::Moment;
use aifo_terminal::paint::Paint;
use aifo_types::escape_line;

/// Returns a line with time, level and text.
pub(crate) fn line(logged: &LoggedMessage, paint: Paint) -> String {
    let level = match logged.level {
        MessageLevel::Error => "error",
        MessageLevel::Warn => "warning",
        MessageLevel::Info => "notice",
        MessageLevel::Debug => "debug",
    };
    let level = format!("{level:<9}");
    let level = if logged.has_failed() { paint.bad(level) } else { paint.faint(level) };
    let time = paint.faint(Moment::from_unix_ms(logged.time));
    format!("{time}  {level}  {}\n", escape_line(&logged.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_level() {
        let rows = [
            (MessageLevel::Error, "1970-01-01 00:00:00Z  error      a\\u{1b}\n"),
            (MessageLevel::Warn, "1970-01-01 00:00:00Z  warning    a\\u{1b}\n"),
            (MessageLevel::Info, "1970-01-01 00:00:00Z  notice     a\\u{1b}\n"),
            (MessageLevel::Debug, "1970-01-01 00:00:00Z  debug      a\\u{1b}\n"),
        ];
        for (level, expected) in rows {
            let logged = LoggedMessage { time: 0, level, message: "a\u{1b}".to_owned() };
            assert_eq!(line(&logged, Paint::Plain), expected);
        }
    }
}
