//! The lines of a log, as they are written and read.

use std::time::Duration;

use aifo_acp::Requests;
use serde_json::{Map, Value, json};

/// One line of a log (`spec/acp-wire.md#lines`).
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When, since 1970; what passes between two entries is never negative.
    pub time: Duration,
    /// What.
    pub what: What,
}

/// What a line of a log tells.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The first line of each file.
    Head {
        /// The agent's name.
        agent: String,
        /// Who writes the log.
        pid: u32,
        /// Which file of the log it is, from 1.
        part: u64,
        /// Whose requests are logged.
        requests: Requests,
    },
    /// Something went over a pipe.
    Line(Pipe, Line),
    /// A pipe of the agent's has come to its end.
    End(Pipe),
    /// A permission was decided, and why: a report of type `decision`.
    Decision(Value),
}

/// A pipe of an agent, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// Its stdout.
    In,
    /// Its stdin.
    Out,
    /// Its stderr.
    Err,
}

/// What went over a pipe.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// JSON.
    Frame(Value),
    /// A line that is none.
    Text {
        /// What is kept of it.
        text: String,
        /// Its length in bytes.
        len: u64,
        /// What it was.
        encoding: Encoding,
    },
    /// A line that is longer, or holds more, than is read.
    Skipped {
        /// Its length in bytes.
        len: u64,
        /// What is kept of it.
        head: String,
    },
}

/// Whether a text stands in the log as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// It does.
    Utf8,
    /// What was no UTF-8 was replaced.
    Broken,
}

impl Entry {
    /// The entry as a line with its end.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
        put("t", u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX).into());
        match &self.what {
            What::Head { agent, pid, part, requests } => {
                put("log", "acp".into());
                put("version", VERSION.into());
                put("agent", agent.as_str().into());
                put("pid", (*pid).into());
                put("part", (*part).into());
                if *requests == Requests::Relayed {
                    put("relay", true.into());
                }
            }
            What::End(pipe) => {
                put("dir", pipe.word().into());
                put("end", true.into());
            }
            What::Decision(report) => put("decision", report.clone()),
            What::Line(pipe, line) => {
                put("dir", pipe.word().into());
                match line {
                    Line::Frame(value) => put("frame", value.clone()),
                    Line::Text { text, len, encoding } => {
                        put("text", text.as_str().into());
                        put("len", (*len).into());
                        if *encoding == Encoding::Broken {
                            put("utf8", false.into());
                        }
                    }
                    Line::Skipped { len, head } => {
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

    /// Reads a line; `None` for what is no line of a log.
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
            let what = What::Head { agent: text("agent")?, pid, part: number("part")?, requests };
            return Some(Entry { time, what });
        }
        if let Some(report) = value.get("decision") {
            return Some(Entry { time, what: What::Decision(report.clone()) });
        }
        let pipe = Pipe::of(value.get("dir")?.as_str()?)?;
        let line = if value.get("end").is_some() {
            return Some(Entry { time, what: What::End(pipe) });
        } else if let Some(text) = text("text") {
            let is_broken = value.get("utf8") == Some(&Value::Bool(false));
            let encoding = if is_broken { Encoding::Broken } else { Encoding::Utf8 };
            Line::Text { text, len: number("len")?, encoding }
        } else if let Some(len) = number("skipped") {
            Line::Skipped { len, head: text("head")? }
        } else {
            Line::Frame(value.get_mut("frame")?.take())
        };
        Some(Entry { time, what: What::Line(pipe, line) })
    }
}

impl Pipe {
    fn word(self) -> &'static str {
        match self {
            Pipe::In => "in",
            Pipe::Out => "out",
            Pipe::Err => "err",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Pipe::In, Pipe::Out, Pipe::Err].into_iter().find(|pipe| pipe.word() == word)
    }
}

/// The version of the form of a log.
const VERSION: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = |encoding| Line::Text { text: "a\nb".into(), len: 9, encoding };
        let rows = [
            What::Head { agent: "gemini".into(), pid: 7, part: 2, requests: Requests::Own },
            What::Head { agent: "gemini".into(), pid: 7, part: 1, requests: Requests::Relayed },
            What::Line(Pipe::In, Line::Frame(json!([{"id": 1}, 17]))),
            What::Line(Pipe::Out, Line::Frame(Value::Null)),
            What::Line(Pipe::Err, text(Encoding::Utf8)),
            What::Line(Pipe::In, text(Encoding::Broken)),
            What::Line(Pipe::In, Line::Skipped { len: 1 << 40, head: "{".into() }),
            What::End(Pipe::In),
            What::Decision(json!({"type": "decision", "id": 9, "rule": "allow"})),
        ];
        for what in rows {
            let entry = Entry { time: Duration::from_millis(1_763_808_995_123), what };
            let line = String::from_utf8(entry.to_line()).unwrap();
            assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
            assert_eq!(Entry::parse(&line), Some(entry), "{line}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "{}",
            r#"{"t":1,"dir":"in"}"#,
            r#"{"t":1,"dir":"up","frame":1}"#,
            r#"{"t":-1,"dir":"in","frame":1}"#,
            r#"{"t":1,"log":"acp","version":2,"agent":"a","pid":1,"part":1}"#,
            r#"{"t":1,"dir":"in","fra"#,
        ] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }
}
