//! Lines of a log: formatting and parsing.

use std::time::Duration;

use aifo_acp::Requests;
use serde_json::{Map, Value, json};

/// One line of a log (`spec/acp-wire.md#lines`).
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// Time since 1970. Monotonic within a log.
    pub time: Duration,
    /// The content.
    pub kind: LogEntryKind,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEntryKind {
    /// The first line of each file.
    Head {
        /// The agent's name.
        agent: String,
        /// The process that writes the log.
        pid: u32,
        /// The file's number within the log, from 1.
        part: u64,
        /// The origin of the requests.
        requests: Requests,
    },
    /// A line of a pipe.
    Line(LogPipe, LogLine),
    /// The end of a pipe.
    End(LogPipe),
    /// A permission decision: a report of type `decision`.
    Decision(Value),
}

/// A pipe of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPipe {
    /// Its stdout.
    In,
    /// Its stdin.
    Out,
    /// Its stderr.
    Err,
}

/// A line of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub enum LogLine {
    /// JSON.
    Frame(Value),
    /// Any other line.
    Text {
        /// Its beginning.
        text: String,
        /// Its length in bytes.
        len: u64,
        /// Its encoding.
        encoding: Encoding,
    },
    /// A line with too many bytes or values.
    Skipped {
        /// Its length in bytes.
        len: u64,
        /// Its beginning.
        head: String,
    },
}

/// The encoding of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// Not UTF-8; invalid bytes were replaced.
    Broken,
}

impl LogEntry {
    /// Formats the entry as a line with its `\n`.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
        put("t", u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX).into());
        match &self.kind {
            LogEntryKind::Head { agent, pid, part, requests } => {
                put("log", "acp".into());
                put("version", VERSION.into());
                put("agent", agent.as_str().into());
                put("pid", (*pid).into());
                put("part", (*part).into());
                if *requests == Requests::Relayed {
                    put("relay", true.into());
                }
            }
            LogEntryKind::End(pipe) => {
                put("dir", pipe.word().into());
                put("end", true.into());
            }
            LogEntryKind::Decision(report) => put("decision", report.clone()),
            LogEntryKind::Line(pipe, line) => {
                put("dir", pipe.word().into());
                match line {
                    LogLine::Frame(value) => put("frame", value.clone()),
                    LogLine::Text { text, len, encoding } => {
                        put("text", text.as_str().into());
                        put("len", (*len).into());
                        if *encoding == Encoding::Broken {
                            put("utf8", false.into());
                        }
                    }
                    LogLine::Skipped { len, head } => {
                        put("skipped", (*len).into());
                        put("head", head.as_str().into());
                    }
                }
            }
        }
        let mut line = Value::Object(members).to_string().into_bytes();
        line.push(b'\n');
        line
    }

    /// Parses a line; `None` if it is not one of a log.
    pub fn parse(line: &str) -> Option<Self> {
        let mut value: Value = serde_json::from_str(line).ok()?;
        let time = Duration::from_millis(value.get("t")?.as_u64()?);
        let number = |name: &str| value.get(name).and_then(Value::as_u64);
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if value.get("log") == Some(&json!("acp")) {
            if number("version")? != VERSION {
                return None;
            }
            let pid = u32::try_from(number("pid")?).ok()?;
            let requests = match value.get("relay") {
                Some(Value::Bool(true)) => Requests::Relayed,
                _ => Requests::Own,
            };
            let kind =
                LogEntryKind::Head { agent: text("agent")?, pid, part: number("part")?, requests };
            return Some(LogEntry { time, kind });
        }
        if let Some(report) = value.get("decision") {
            return Some(LogEntry { time, kind: LogEntryKind::Decision(report.clone()) });
        }
        let pipe = LogPipe::of(value.get("dir")?.as_str()?)?;
        let line = if value.get("end").is_some() {
            return Some(LogEntry { time, kind: LogEntryKind::End(pipe) });
        } else if let Some(text) = text("text") {
            let is_broken = value.get("utf8") == Some(&Value::Bool(false));
            let encoding = if is_broken { Encoding::Broken } else { Encoding::Utf8 };
            LogLine::Text { text, len: number("len")?, encoding }
        } else if let Some(len) = number("skipped") {
            LogLine::Skipped { len, head: text("head")? }
        } else {
            LogLine::Frame(value.get_mut("frame")?.take())
        };
        Some(LogEntry { time, kind: LogEntryKind::Line(pipe, line) })
    }
}

impl LogPipe {
    fn word(self) -> &'static str {
        match self {
            LogPipe::In => "in",
            LogPipe::Out => "out",
            LogPipe::Err => "err",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [LogPipe::In, LogPipe::Out, LogPipe::Err].into_iter().find(|pipe| pipe.word() == word)
    }
}

/// The version of the log format.
const VERSION: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = |encoding| LogLine::Text { text: "a\nb".into(), len: 9, encoding };
        let rows = [
            LogEntryKind::Head { agent: "gemini".into(), pid: 7, part: 2, requests: Requests::Own },
            LogEntryKind::Head {
                agent: "gemini".into(),
                pid: 7,
                part: 1,
                requests: Requests::Relayed,
            },
            LogEntryKind::Line(LogPipe::In, LogLine::Frame(json!([{"id": 1}, 17]))),
            LogEntryKind::Line(LogPipe::Out, LogLine::Frame(Value::Null)),
            LogEntryKind::Line(LogPipe::Err, text(Encoding::Utf8)),
            LogEntryKind::Line(LogPipe::In, text(Encoding::Broken)),
            LogEntryKind::Line(LogPipe::In, LogLine::Skipped { len: 1 << 40, head: "{".into() }),
            LogEntryKind::End(LogPipe::In),
            LogEntryKind::Decision(json!({"type": "decision", "id": 9, "rule": "allow"})),
        ];
        for kind in rows {
            let entry = LogEntry { time: Duration::from_millis(1_763_808_995_123), kind };
            let line = String::from_utf8(entry.to_line()).unwrap();
            assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
            assert_eq!(LogEntry::parse(&line), Some(entry), "{line}");
        }
    }

    #[test]
    fn other_lines_are_rejected() {
        for line in [
            "",
            "{}",
            r#"{"t":1,"dir":"in"}"#,
            r#"{"t":1,"dir":"up","frame":1}"#,
            r#"{"t":-1,"dir":"in","frame":1}"#,
            r#"{"t":1,"log":"acp","version":2,"agent":"a","pid":1,"part":1}"#,
            r#"{"t":1,"dir":"in","fra"#,
        ] {
            assert_eq!(LogEntry::parse(line), None, "{line}");
        }
    }
}
