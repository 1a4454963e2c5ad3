//! Reads the log of a session that may be running.

use std::io;
use std::path::Path;

use aifo_types::{CallEnding, LoggedCall};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::MessageLevel;
use crate::log_file::LineReader;

/// Reads the calls of a log that its session may rotate.
#[derive(Debug)]
pub struct CallLogReader(LineReader);

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedLine {
    /// The line, without its end.
    pub json: String,
    /// The recorded event.
    pub record: LoggedRecord,
}

/// The record of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedRecord {
    /// A call.
    Call(LoggedCall),
    /// The launcher message.
    Message(LoggedMessage),
}

/// A message of the launcher in a session log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedMessage {
    /// When it was logged, in milliseconds since 1970.
    pub time: u64,
    /// Its severity; an unknown one is [`MessageLevel::Info`].
    pub level: MessageLevel,
    /// The text.
    pub message: String,
}

impl LoggedMessage {
    /// Returns whether it is a warning or an error.
    pub fn has_failed(&self) -> bool {
        matches!(self.level, MessageLevel::Error | MessageLevel::Warn)
    }
}

impl CallLogReader {
    /// Opens a log, with its older part. Errors: it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        LineReader::open(path).map(CallLogReader)
    }

    /// Returns the lines since the last read. Reads at most `limit` bytes at once; the rest follows with
    /// the next read. A damaged line, as after a crash, is skipped.
    pub fn read(&mut self, limit: u64) -> io::Result<Vec<LoggedLine>> {
        self.0.read(limit, |line| {
            let json = String::from_utf8_lossy(line).into_owned();
            Some(LoggedLine { json, record: parse(line)? })
        })
    }
}

/// Parses a line. Unknown fields are ignored; `None` if it has neither tool nor message.
fn parse(line: &[u8]) -> Option<LoggedRecord> {
    let record: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let message = record.get("message").and_then(Value::as_str);
    match (call(&record), message) {
        (Some(call), _) => Some(LoggedRecord::Call(call)),
        (None, Some(message)) => {
            let level = record.get("level").and_then(|level| MessageLevel::deserialize(level).ok());
            Some(LoggedRecord::Message(LoggedMessage {
                time: record.get("time").and_then(Value::as_u64).unwrap_or_default(),
                level: level.unwrap_or(MessageLevel::Info),
                message: message.to_owned(),
            }))
        }
        (None, None) => None,
    }
}

fn call(record: &Map<String, Value>) -> Option<LoggedCall> {
    let number = |name| record.get(name).and_then(Value::as_u64).unwrap_or_default();
    let text = |name| record.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(LoggedCall {
        time: number("time"),
        exec_id: text("exec_id").unwrap_or_default(),
        tool: text("tool")?,
        argv: text("argv").unwrap_or_default(),
        kind: text("kind"),
        exit_code: u8::try_from(number("exit_code")).ok()?,
        ending: CallEnding::parse(&text("ending").unwrap_or_default()),
        limit: text("limit"),
        no_network: text("no_network"),
        reason: text("reason"),
        wall_ms: record.get("wall_ms").and_then(Value::as_u64),
        max_rss_kib: record.get("max_rss_kib").and_then(Value::as_u64),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::log_file::rotated_log;

    fn call(tool: &str) -> LoggedCall {
        LoggedCall {
            time: 0,
            exec_id: String::new(),
            tool: tool.to_owned(),
            argv: String::new(),
            kind: None,
            exit_code: 0,
            ending: CallEnding::Unknown,
            limit: None,
            no_network: None,
            reason: None,
            wall_ms: None,
            max_rss_kib: None,
        }
    }

    #[test]
    fn fields_of_a_call() {
        let line = r#"{"time":5,"exec_id":"x","tool":"cargo","argv":"test '<b>'","cwd":"","kind":"rust",
            "exit_code":137,"ending":"signaled","limit":"memory","no_network":"r","reason":"why","wall_ms":1500,
            "max_rss_kib":900,"new":[1]}"#;
        let expected = LoggedCall {
            time: 5,
            exec_id: "x".to_owned(),
            argv: "test '<b>'".to_owned(),
            kind: Some("rust".to_owned()),
            exit_code: 137,
            ending: CallEnding::Signaled,
            limit: Some("memory".to_owned()),
            no_network: Some("r".to_owned()),
            reason: Some("why".to_owned()),
            wall_ms: Some(1500),
            max_rss_kib: Some(900),
            ..call("cargo")
        };
        assert_eq!(parse(line.as_bytes()), Some(LoggedRecord::Call(expected)));
        let few = r#"{"tool":"make","kind":null,"ending":"vanished"}"#;
        assert_eq!(parse(few.as_bytes()), Some(LoggedRecord::Call(call("make"))));
        for (level, expected) in [("warn", MessageLevel::Warn), ("another", MessageLevel::Info)] {
            let line = format!(r#"{{"time":5,"level":"{level}","message":"text"}}"#);
            let message = LoggedMessage { time: 5, level: expected, message: "text".to_owned() };
            assert_eq!(message.has_failed(), expected == MessageLevel::Warn);
            assert_eq!(parse(line.as_bytes()), Some(LoggedRecord::Message(message)));
        }
        for damaged in [r#"{"tool":1}"#, r#"{"ending":"exited"}"#, r#"{"tool":"#, "7", ""] {
            assert_eq!(parse(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn a_rotated_log_is_read_whole_in_parts_of_any_size() {
        for limit in [1, 7, 40, u64::MAX] {
            let name = format!("aifo-log-reader-{}-{limit}.jsonl", std::process::id());
            let path = std::env::temp_dir().join(name);
            let line = |tool: &str| format!("{{\"tool\":\"{tool}\"}}\n");
            fs::write(rotated_log(&path), line("a")).unwrap();
            fs::write(&path, line("b") + "damaged\n" + "{\"tool\":").unwrap();
            let mut reader = CallLogReader::open(&path).unwrap();
            let mut read = || {
                let mut tools = String::new();
                for _ in 0..100 {
                    let lines = reader.read(limit).unwrap();
                    for LoggedLine { json, record } in lines {
                        let LoggedRecord::Call(call) = record else { panic!("{json}") };
                        assert_eq!(format!("{json}\n"), line(&call.tool));
                        tools += &call.tool;
                    }
                }
                tools
            };
            assert_eq!(read(), "ab", "the last line is incomplete");
            fs::write(&path, line("b") + "damaged\n" + &line("c")).unwrap();
            fs::rename(&path, rotated_log(&path)).unwrap();
            assert_eq!(read(), "c", "the new file is missing");
            fs::write(&path, line("d")).unwrap();
            assert_eq!(read(), "d");
            fs::remove_file(&path).unwrap();
            fs::remove_file(rotated_log(&path)).unwrap();
        }
    }
}
