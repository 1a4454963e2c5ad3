//! The connection with one peer: requests in both directions, and the lines for it.

use std::time::Instant;

use serde_json::{Map, Value};

use crate::envelope::Envelope;
use crate::json::LineTooLong;
use crate::limits::Limits;
use crate::message::{Id, Message, RpcError, code};
use crate::message_reader::{Inbound, MessageReader};
use crate::outbox::Outbox;
use crate::pending::{Completion, Pending};
use crate::protocol_errors::{ProtocolErrors, count};
use crate::unanswered::Unanswered;

/// A JSON-RPC peer. `S` describes a request sent to it, `R` one received from it.
#[derive(Debug)]
pub(crate) struct Peer<S, R> {
    pub(crate) reader: MessageReader,
    pub(crate) out: Outbox,
    /// Requests sent to it, by ids of this program.
    pub(crate) sent: Pending<S>,
    /// Its requests, by its own ids. Each is answered when removed.
    pub(crate) received: Unanswered<R>,
    pub(crate) protocol_errors: ProtocolErrors,
    /// The most unanswered requests.
    max_requests: usize,
    is_open: bool,
}

/// An oversized message, which was skipped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Skipped<S> {
    /// The response to this request.
    Response(u64, S),
    /// A request, which must be rejected.
    Request(Id),
    /// A message that needs no answer.
    Other,
}

impl<S, R> Peer<S, R> {
    pub(crate) fn new(limits: &Limits) -> Self {
        Peer {
            reader: MessageReader::new(limits),
            out: Outbox::new(limits.frame_out),
            sent: Pending::default(),
            received: Unanswered::default(),
            protocol_errors: ProtocolErrors::default(),
            max_requests: limits.requests,
            is_open: true,
        }
    }

    /// Returns the next item of the stream. [`Inbound::Eof`] is the last.
    pub(crate) fn next_inbound(&mut self) -> Option<Inbound> {
        let inbound = self.reader.next_message().filter(|_| self.is_open)?;
        self.is_open = inbound != Inbound::Eof;
        Some(inbound)
    }

    /// Returns false after [`Inbound::Eof`].
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sends a request and returns its id.
    ///
    /// # Errors
    ///
    /// [`LineTooLong`] if it exceeds the limit; then it is not sent.
    pub(crate) fn send(
        &mut self,
        request: S,
        deadline: Option<Instant>,
        (method, params): (String, Value),
        extra: Map<String, Value>,
    ) -> Result<u64, LineTooLong> {
        let id = self.sent.enter(request, deadline);
        let sent = self.out.push(Message::Request { id: id.into(), method, params }, extra);
        if sent.is_err() {
            self.sent.complete(&id.into());
        }
        sent.map(|()| id)
    }

    /// Removes the request of a response. Counts a response without one.
    pub(crate) fn complete(&mut self, id: &Id) -> Option<(u64, S)> {
        match self.sent.complete(id) {
            Completion::Known(number, request) => return Some((number, request)),
            Completion::Duplicate => count(&mut self.protocol_errors.duplicate_responses),
            Completion::Unknown => count(&mut self.protocol_errors.unknown_responses),
        }
        None
    }

    /// Returns whether a request has the id of an unanswered one, whose answer serves both.
    pub(crate) fn is_duplicate(&mut self, id: &Id) -> bool {
        let is_duplicate = self.received.contains(id);
        if is_duplicate {
            count(&mut self.protocol_errors.duplicate_requests);
        }
        is_duplicate
    }

    /// Returns the error for one more request than [`Limits::requests`].
    pub(crate) fn check_room(&mut self) -> Result<(), RpcError> {
        if self.received.len() < self.max_requests { Ok(()) } else { Err(self.busy()) }
    }

    /// Counts a request for which there is no room, and returns its error.
    pub(crate) fn busy(&mut self) -> RpcError {
        count(&mut self.protocol_errors.excess_requests);
        RpcError::new(code::INTERNAL, "busy")
    }

    /// Counts a request of an unknown method, and returns its error.
    pub(crate) fn unknown_method(&mut self, method: &str) -> RpcError {
        count(&mut self.protocol_errors.unknown_requests);
        RpcError::new(code::METHOD_NOT_FOUND, format!("no method '{method}'"))
    }

    /// Returns the unanswered request that `$/cancel_request` names. Counts an unknown one.
    pub(crate) fn cancelled_request(&mut self, params: &Value) -> Option<Id> {
        let id = params.get("requestId").cloned().and_then(Id::parse);
        let id = id.filter(|id| self.received.contains(id));
        if id.is_none() {
            count(&mut self.protocol_errors.unknown_cancellations);
        }
        id
    }

    /// Removes the request of an oversized response, and returns that of an oversized request.
    pub(crate) fn skip(&mut self, envelope: Envelope) -> Skipped<S> {
        match envelope {
            Envelope { id: Some(id), method: None } => match self.complete(&id) {
                Some((number, request)) => Skipped::Response(number, request),
                None => Skipped::Other,
            },
            Envelope { id: Some(id), method: Some(_) } if !self.received.contains(&id) => {
                Skipped::Request(id)
            }
            _ => Skipped::Other,
        }
    }
}

/// Returns the error for an oversized message.
pub(crate) fn too_long(code: i64, len: u64) -> RpcError {
    RpcError::new(code, format!("a message of {len} bytes is too long"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn peer() -> Peer<&'static str, ()> {
        Peer::new(&Limits { requests: 1, frame_out: 100, ..Limits::default() })
    }

    fn params() -> (String, Value) {
        ("m".to_owned(), json!({}))
    }

    #[test]
    fn a_request_that_is_too_long_is_not_pending() {
        let mut peer = peer();
        let long = ("m".to_owned(), json!("x".repeat(100)));
        assert!(peer.send("a", None, long, Map::new()).is_err());
        assert_eq!(peer.send("b", None, params(), Map::new()), Ok(2));
        assert_eq!(peer.complete(&Id::from(1)), None);
        assert_eq!(peer.complete(&Id::from(2)), Some((2, "b")));
        assert_eq!(peer.protocol_errors.duplicate_responses, 1);
    }

    #[test]
    fn an_oversized_message_belongs_to_its_request() {
        let mut peer = peer();
        peer.send("a", None, params(), Map::new()).unwrap();
        peer.received.push(Id::from(7), ());
        let envelope = |id: u64, method: Option<&str>| Envelope {
            id: Some(Id::from(id)),
            method: method.map(str::to_owned),
        };
        assert_eq!(peer.skip(envelope(1, None)), Skipped::Response(1, "a"));
        assert_eq!(peer.skip(envelope(1, None)), Skipped::Other);
        assert_eq!(peer.skip(envelope(8, Some("m"))), Skipped::Request(Id::from(8)));
        assert_eq!(peer.skip(envelope(7, Some("m"))), Skipped::Other, "it gets one answer");
        assert_eq!(peer.skip(Envelope::default()), Skipped::Other);
    }

    #[test]
    fn refused_requests_are_counted() {
        let mut peer = peer();
        assert_eq!(peer.check_room(), Ok(()));
        peer.received.push(Id::from(7), ());
        assert_eq!(peer.check_room().unwrap_err().message, "busy");
        assert!(peer.is_duplicate(&Id::from(7)) && !peer.is_duplicate(&Id::from(8)));
        assert_eq!(peer.unknown_method("x").code, code::METHOD_NOT_FOUND);
        assert_eq!(peer.cancelled_request(&json!({"requestId": 7})), Some(Id::from(7)));
        assert_eq!(peer.cancelled_request(&json!({"requestId": 8})), None);
        let expected = ProtocolErrors {
            excess_requests: 1,
            duplicate_requests: 1,
            unknown_requests: 1,
            unknown_cancellations: 1,
            ..ProtocolErrors::default()
        };
        assert_eq!(peer.protocol_errors, expected);
    }

    #[test]
    fn the_end_of_the_stream_is_its_last_item() {
        let mut peer = peer();
        peer.reader.receive_eof();
        assert!(peer.is_open());
        assert_eq!(peer.next_inbound(), Some(Inbound::Eof));
        assert_eq!(peer.next_inbound(), None);
        assert!(!peer.is_open());
    }
}
