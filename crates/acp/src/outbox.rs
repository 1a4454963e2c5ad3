//! Lines to write.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use crate::json::{LineTooLong, encode_line};
use crate::message::{Id, Message, RpcError, code};

/// Encoded messages for a peer, each within the line limit.
#[derive(Debug)]
pub(crate) struct Outbox {
    lines: VecDeque<Vec<u8>>,
    /// Their bytes.
    held: usize,
    /// The line limit in bytes.
    limit: usize,
}

impl Outbox {
    pub(crate) fn new(limit: usize) -> Self {
        Outbox { lines: VecDeque::new(), held: 0, limit }
    }

    /// Adds a message with additional members.
    ///
    /// # Errors
    ///
    /// [`LineTooLong`] if it exceeds the limit; then nothing is added.
    pub(crate) fn push(
        &mut self,
        message: Message,
        extra: Map<String, Value>,
    ) -> Result<(), LineTooLong> {
        let line = encode_line(&message.into_value(extra), self.limit)?;
        self.held = self.held.saturating_add(line.len());
        self.lines.push_back(line);
        Ok(())
    }

    /// Adds a notification.
    ///
    /// # Errors
    ///
    /// [`LineTooLong`] if it exceeds the limit; then nothing is added.
    pub(crate) fn notify(
        &mut self,
        method: String,
        params: Value,
        extra: Map<String, Value>,
    ) -> Result<(), LineTooLong> {
        self.push(Message::Notification { method, params }, extra)
    }

    /// Adds a response. One that is too long is replaced by an error, and the caller receives
    /// [`LineTooLong`].
    pub(crate) fn reply(
        &mut self,
        id: Id,
        outcome: Result<Value, RpcError>,
        extra: Map<String, Value>,
    ) -> Result<(), LineTooLong> {
        let too_long = match self.push(Message::Response { id: id.clone(), outcome }, extra) {
            Ok(()) => return Ok(()),
            Err(too_long) => too_long,
        };
        let error = RpcError::new(code::INTERNAL, "the answer is too long");
        // An id as long as a line cannot be answered.
        let _ = self.push(Message::Response { id, outcome: Err(error) }, Map::new());
        Err(too_long)
    }

    /// Removes and returns the next line, with its `\n`.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let line = self.lines.pop_front()?;
        self.held = self.held.saturating_sub(line.len());
        Some(line)
    }

    /// Returns the number of queued lines.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the number of queued bytes.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_oversized_response_becomes_an_error() {
        let mut out = Outbox::new(100);
        let extra = || json!({"trace": 1}).as_object().unwrap().clone();
        assert_eq!(out.reply(Id::from(1), Ok(json!({})), extra()), Ok(()));
        let long = json!("x".repeat(100));
        assert!(out.reply(Id::from(2), Ok(long), extra()).is_err());
        assert_eq!(
            out.push(Message::Response { id: Id::from(3), outcome: Ok(json!(1)) }, extra()),
            Ok(())
        );
        assert!(out.held() > 0);
        let lines: Vec<Value> = std::iter::from_fn(|| out.pop())
            .map(|line| serde_json::from_slice(&line).unwrap())
            .collect();
        assert_eq!(
            lines,
            [
                json!({"jsonrpc": "2.0", "id": 1, "result": {}, "trace": 1}),
                json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "the answer is too long"}}),
                json!({"jsonrpc": "2.0", "id": 3, "result": 1, "trace": 1}),
            ]
        );
        assert_eq!(out.held(), 0);
    }
}
