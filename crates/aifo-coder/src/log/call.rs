//! One call of a log, formatted as a line.

use aifo_types::escape_line;
use serde::Deserialize;

use super::clock::{Moment, duration};
use crate::paint::Paint;

/// The shown fields of a call's record. Unknown keys are ignored; missing ones are empty.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    #[serde(default)]
    time: u64,
    tool: String,
    #[serde(default)]
    argv: String,
    kind: Option<String>,
    #[serde(default)]
    exit_code: u8,
    #[serde(default)]
    ending: Ending,
    limit: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    wall_ms: u64,
    #[serde(default)]
    max_rss_kib: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ending {
    Exited,
    Signaled,
    Timeout,
    Refused,
    #[default]
    #[serde(other)]
    Unknown,
}

impl Call {
    /// Returns whether the call ended in any way but exit code 0.
    pub(crate) fn has_failed(&self) -> bool {
        self.ending != Ending::Exited || self.exit_code != 0
    }

    /// Time, ending, duration, peak memory, kind, call, then the exceeded limit or the reason.
    pub(crate) fn line(&self, paint: Paint) -> String {
        let ending = match self.ending {
            Ending::Exited => format!("exit {}", self.exit_code),
            Ending::Signaled => format!("signal {}", self.exit_code.saturating_sub(128)),
            Ending::Timeout => "timeout".to_owned(),
            Ending::Refused => "refused".to_owned(),
            Ending::Unknown => "unknown".to_owned(),
        };
        let ending = format!("{ending:<9}");
        let ending = if self.has_failed() { paint.bad(ending) } else { paint.good(ending) };
        let (wall, memory) = match self.ending {
            Ending::Refused => (String::new(), String::new()),
            _ => (duration(self.wall_ms), memory(self.max_rss_kib)),
        };
        let time = paint.faint(Moment::from_unix_ms(self.time));
        let kind = escape_line(self.kind.as_deref().unwrap_or("-"));
        let call = escape_line(&self.tool) + " " + &escape_line(&self.argv);
        let mut line =
            format!("{time}  {ending}  {wall:>12}  {memory:>9}  {kind:<8}  {}", call.trim_end());
        if let Some(limit) = &self.limit {
            line += &paint.faint(format!("  # limit on {}", escape_line(limit)));
        }
        if let Some(reason) = &self.reason {
            line += &paint.faint(format!("  # {}", escape_line(reason)));
        }
        line + "\n"
    }
}

/// Formats kibibytes as mebibytes, or as kibibytes below one.
fn memory(kib: u64) -> String {
    if kib < 1024 { format!("{kib} KiB") } else { format!("{} MiB", kib / 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(json: &str) -> Call {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_line_for_each_ending() {
        let rows = [
            (
                r#"{"time":951782400000,"tool":"cargo","argv":"test --all","kind":"rust",
                    "exit_code":0,"ending":"exited","wall_ms":1234,"max_rss_kib":90000,"new":1}"#,
                "2000-02-29 00:00:00Z  exit 0           1.23 s     87 MiB  rust      cargo test --all\n",
                false,
            ),
            (
                r#"{"time":0,"tool":"make","argv":"","kind":"c-cpp","exit_code":137,
                    "ending":"signaled","wall_ms":5,"max_rss_kib":900}"#,
                "1970-01-01 00:00:00Z  signal 9           5 ms    900 KiB  c-cpp     make\n",
                true,
            ),
            (
                r#"{"time":0,"tool":"ls","argv":"-l","kind":null,"exit_code":86,"ending":"refused",
                    "reason":"forbidden: tool 'ls'\u001b"}"#,
                "1970-01-01 00:00:00Z  refused                             -         ls -l  \
                 # forbidden: tool 'ls'\\u{1b}\n",
                true,
            ),
            (
                r#"{"tool":"x","argv":"y","ending":"signaled","exit_code":137,"limit":"memory"}"#,
                "  x y  # limit on memory\n",
                true,
            ),
            (r#"{"tool":"x","ending":"vanished"}"#, "unknown", true),
            (r#"{"tool":"x","ending":"timeout","exit_code":124}"#, "timeout", true),
            (r#"{"tool":"x","ending":"exited","exit_code":1}"#, "exit 1", true),
        ];
        for (json, expected, failed) in rows {
            let call = call(json);
            let line = call.line(Paint::Plain);
            assert!(line.contains(expected), "{line}");
            assert_eq!(call.has_failed(), failed, "{json}");
        }
    }

    #[test]
    fn colours_only_when_painted() {
        let line = call(r#"{"tool":"x","ending":"exited","exit_code":1}"#).line(Paint::Colours);
        assert!(line.contains("\x1b[31mexit 1"), "{line:?}");
    }
}
