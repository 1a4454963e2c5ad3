//! Decodes messages and skips other output.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use crate::envelope::Envelope;
use crate::frame::{Frame, FrameReader};
use crate::json::{JsonError, parse_json};
use crate::limits::Limits;
use crate::message::{Invalid, Message};

/// Reads a peer's messages (`spec/acp.md#messages`). Never fails: other output is reported,
/// counted, and skipped.
#[derive(Debug)]
pub struct MessageReader {
    frames: FrameReader,
    values: usize,
    /// The rest of the last batch.
    batch: VecDeque<Value>,
    /// Additional members of the last message.
    extra: Map<String, Value>,
    traffic: Traffic,
    non_json: OutputTail,
}

/// An item of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Inbound {
    /// A message, never [`Message::Invalid`].
    Message(Message),
    /// A line, or an element of a batch, that is not a message. Never answered.
    NonJsonOutput(NonJsonOutput),
    /// A message with too many bytes or values.
    TooLong {
        /// The length of its line in bytes.
        len: u64,
        /// Its id and method, as far as its first bytes have them.
        envelope: Envelope,
    },
    /// The stream has ended. Repeats.
    Eof,
}

/// Why a line is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NonJsonOutput {
    /// Not JSON.
    #[error("a line that is not JSON")]
    NotJson,
    /// Not UTF-8.
    #[error("a line that is not UTF-8")]
    NotUtf8,
    /// JSON, but not JSON-RPC.
    #[error("not a message: {0}")]
    Invalid(Invalid),
}

/// Counts of a stream's items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Notifications.
    pub notifications: u64,
    /// Responses.
    pub responses: u64,
    /// Batches.
    pub batches: u64,
    /// Lines and batch elements that are not messages.
    pub non_json: u64,
    /// Oversized messages.
    pub too_long: u64,
}

impl MessageReader {
    /// Creates a reader at the start of a stream.
    pub fn new(limits: &Limits) -> Self {
        MessageReader {
            frames: FrameReader::new(limits.frame, limits.frame_head),
            values: limits.values,
            batch: VecDeque::new(),
            extra: Map::new(),
            traffic: Traffic::default(),
            non_json: OutputTail { limit: limits.non_json_tail, text: String::new() },
        }
    }

    /// Passes in bytes. Call [`next_message`](MessageReader::next_message) until it returns `None`
    /// before the next call.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.frames.receive(bytes);
    }

    /// Passes in the end of the stream.
    pub fn receive_eof(&mut self) {
        self.frames.receive_eof();
    }

    /// Returns the next item, or `None` until more bytes arrive.
    pub fn next_message(&mut self) -> Option<Inbound> {
        let next = match self.batch.pop_front() {
            Some(value) => self.inbound(value),
            None => self.next_line()?,
        };
        // The message no longer borrows from its line.
        self.frames.give_back();
        self.traffic.count(&next);
        Some(next)
    }

    /// Takes the additional members of the last message, to forward them with it.
    pub(crate) fn take_extra(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.extra)
    }

    /// Returns the counts so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Returns the last bytes of all lines that are not messages, for error reports.
    pub fn non_json(&self) -> &str {
        self.non_json.tail()
    }

    /// Returns the number of buffered bytes.
    pub fn held(&self) -> usize {
        self.frames.held()
    }

    fn next_line(&mut self) -> Option<Inbound> {
        let line = match self.frames.next_frame()? {
            Frame::Eof => return Some(Inbound::Eof),
            Frame::NotUtf8 { line } => {
                self.non_json.push(&format!("({} bytes that are not UTF-8)", line.len()));
                return Some(Inbound::NonJsonOutput(NonJsonOutput::NotUtf8));
            }
            Frame::Oversize { len, head } => {
                return Some(Inbound::TooLong { len, envelope: Envelope::read(head) });
            }
            Frame::Line(line) => line,
        };
        let value = match parse_json(line, self.values) {
            Ok(value) => value,
            Err(JsonError::TooMuch { .. }) => {
                let envelope = Envelope::read(line.as_bytes());
                return Some(Inbound::TooLong { len: line.len() as u64, envelope });
            }
            Err(JsonError::Syntax(_)) => {
                self.non_json.push(line);
                return Some(Inbound::NonJsonOutput(NonJsonOutput::NotJson));
            }
        };
        match value {
            Value::Array(batch) => {
                self.traffic.batches = self.traffic.batches.saturating_add(1);
                self.batch = batch.into();
                let first = self.batch.pop_front();
                let none = Inbound::NonJsonOutput(NonJsonOutput::Invalid(Invalid::EmptyBatch));
                Some(first.map_or(none, |value| self.inbound(value)))
            }
            value => {
                let (message, extra) = Message::split(value);
                if matches!(message, Message::Invalid(_)) {
                    self.non_json.push(line);
                }
                self.extra = extra;
                Some(inbound(message))
            }
        }
    }

    fn inbound(&mut self, value: Value) -> Inbound {
        let (message, extra) = Message::split(value);
        self.extra = extra;
        inbound(message)
    }
}

fn inbound(message: Message) -> Inbound {
    match message {
        Message::Invalid(why) => Inbound::NonJsonOutput(NonJsonOutput::Invalid(why)),
        message => Inbound::Message(message),
    }
}

impl Traffic {
    fn count(&mut self, inbound: &Inbound) {
        let count = match inbound {
            Inbound::Message(Message::Request { .. }) => &mut self.requests,
            Inbound::Message(Message::Notification { .. }) => &mut self.notifications,
            Inbound::Message(Message::Response { .. }) => &mut self.responses,
            Inbound::Message(Message::Invalid(_)) | Inbound::NonJsonOutput(_) => &mut self.non_json,
            Inbound::TooLong { .. } => &mut self.too_long,
            Inbound::Eof => return,
        };
        *count = count.saturating_add(1);
    }
}

/// The last lines of non-JSON output.
#[derive(Debug)]
struct OutputTail {
    limit: usize,
    /// Up to twice the limit, so that it is seldom moved.
    text: String,
}

impl OutputTail {
    fn push(&mut self, line: &str) {
        self.text.push_str(end_of(line, self.limit));
        self.text.push('\n');
        if self.text.len() > self.limit.saturating_mul(2) {
            self.text = self.tail().to_owned();
        }
    }

    fn tail(&self) -> &str {
        end_of(&self.text, self.limit)
    }
}

/// Returns the last whole characters within `limit` bytes.
fn end_of(text: &str, limit: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(limit));
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::Id;

    fn reader() -> MessageReader {
        MessageReader::new(&Limits {
            frame: 256,
            values: 32,
            non_json_tail: 40,
            ..Limits::default()
        })
    }

    fn read(wire: &[u8]) -> (Vec<Inbound>, MessageReader) {
        let mut reader = reader();
        reader.receive(wire);
        reader.receive_eof();
        let mut story = Vec::new();
        while let Some(next) = reader.next_message()
            && next != Inbound::Eof
        {
            story.push(next);
        }
        (story, reader)
    }

    fn notification(method: &str) -> Inbound {
        let method = method.to_owned();
        Inbound::Message(Message::Notification { method, params: json!(null) })
    }

    #[test]
    fn non_json_output_is_skipped_and_its_tail_kept() {
        let wire =
            b"Loading credentials...\n{\"method\":\"a\"}\n17\n{\"id\":1,\"level\":\"info\"}\n\
            \xff\xfe\n{\"broken\":\n{\"method\":\"b\"}\n";
        let (story, reader) = read(wire);
        let expected = [
            Inbound::NonJsonOutput(NonJsonOutput::NotJson),
            notification("a"),
            Inbound::NonJsonOutput(NonJsonOutput::Invalid(Invalid::NotAnObject)),
            Inbound::NonJsonOutput(NonJsonOutput::Invalid(Invalid::Neither)),
            Inbound::NonJsonOutput(NonJsonOutput::NotUtf8),
            Inbound::NonJsonOutput(NonJsonOutput::NotJson),
            notification("b"),
        ];
        assert_eq!(story, expected);
        assert!(reader.non_json().ends_with("bytes that are not UTF-8)\n{\"broken\":\n"));
        assert!(reader.non_json().len() <= 40);
        let expected = Traffic { notifications: 2, non_json: 5, ..Traffic::default() };
        assert_eq!(reader.traffic(), expected);
    }

    #[test]
    fn the_tail_of_non_json_output_is_whole_characters() {
        let mut reader = reader();
        for _ in 0..1000 {
            reader.receive("é€éééééééé€€€\n".as_bytes());
            assert_eq!(reader.next_message(), Some(Inbound::NonJsonOutput(NonJsonOutput::NotJson)));
            assert!(reader.non_json().len() <= 40 && reader.non_json().ends_with("€\n"));
            assert!(reader.non_json.text.len() <= 80);
        }
    }

    #[test]
    fn a_batch_is_read_message_by_message() {
        let (story, reader) = read(b"[{\"id\":1,\"result\":2},{\"method\":\"a\"},17,[[]]]\n[]\n");
        let outcome = Ok(json!(2));
        let expected = [
            Inbound::Message(Message::Response { id: Id::from(1), outcome }),
            notification("a"),
            Inbound::NonJsonOutput(NonJsonOutput::Invalid(Invalid::NotAnObject)),
            Inbound::NonJsonOutput(NonJsonOutput::Invalid(Invalid::NotAnObject)),
            Inbound::NonJsonOutput(NonJsonOutput::Invalid(Invalid::EmptyBatch)),
        ];
        assert_eq!(story, expected);
        let expected = Traffic {
            responses: 1,
            notifications: 1,
            non_json: 3,
            batches: 2,
            ..Traffic::default()
        };
        assert_eq!(reader.traffic(), expected);
    }

    #[test]
    fn an_oversized_message_has_its_id() {
        let long = format!("{{\"id\":3,\"result\":\"{}\"}}\n", "x".repeat(300));
        let many = format!("{{\"id\":4,\"result\":[{}0]}}\n", "0,".repeat(40));
        let (story, reader) = read(format!("{long}{many}{{\"method\":\"a\"}}\n").as_bytes());
        let too_long = |len: usize, id: u64| Inbound::TooLong {
            len: len as u64 - 1,
            envelope: Envelope { id: Some(Id::from(id)), method: None },
        };
        assert_eq!(story, [too_long(long.len(), 3), too_long(many.len(), 4), notification("a")]);
        assert_eq!(reader.traffic().too_long, 2);
    }
}
