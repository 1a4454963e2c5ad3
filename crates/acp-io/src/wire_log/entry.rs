//! Lines of a log.

use std::time::Duration;

use serde_json::{Map, Value};

/// One line of a log (`spec/acp-wire.md#lines`).
#[derive(Debug)]
pub(super) struct LogEntry {
    /// Time since 1970. Monotonic within a log.
    pub(super) time: Duration,
    /// The content.
    pub(super) kind: LogEntryKind,
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum LogEntryKind {
    /// The first line of each file.
    Head {
        /// The agent name.
        agent: String,
        /// The process that writes the log.
        pid: u32,
        /// The file's number within the log, from 1.
        part: u64,
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
pub(super) enum LogPipe {
    /// Its stdout.
    In,
    /// Its stdin.
    Out,
    /// Its stderr.
    Err,
}

/// A line of a pipe.
#[derive(Debug)]
pub(super) enum LogLine {
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
pub(super) enum Encoding {
    /// UTF-8.
    Utf8,
    /// Not UTF-8; invalid bytes were replaced.
    Broken,
}

impl LogEntry {
    /// Formats the entry as a line with its `\n`.
    pub(super) fn to_line(&self) -> Vec<u8> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
        put("t", u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX).into());
        match &self.kind {
            LogEntryKind::Head { agent, pid, part } => {
                put("log", "acp".into());
                put("version", VERSION.into());
                put("agent", agent.as_str().into());
                put("pid", (*pid).into());
                put("part", (*part).into());
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
}

impl LogPipe {
    fn word(self) -> &'static str {
        match self {
            LogPipe::In => "in",
            LogPipe::Out => "out",
            LogPipe::Err => "err",
        }
    }
}

/// The version of the log format.
const VERSION: u64 = 1;
