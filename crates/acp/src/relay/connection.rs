//! The connection with one end.

use serde_json::{Map, Value};

use super::Side;
use crate::limits::Limits;
use crate::message::Id;
use crate::message_reader::MessageReader;
use crate::outbox::Outbox;
use crate::pending::Pending;
use crate::protocol_errors::ProtocolErrors;
use crate::unanswered::Unanswered;

/// The state of the connection with one end.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) reader: MessageReader,
    pub(super) out: Outbox,
    /// Requests sent to it, by the relay's ids.
    pub(super) sent: Pending<ForwardedRequest>,
    /// Its requests, by its own ids. Each is answered when removed.
    pub(super) incoming: Unanswered<IncomingRequest>,
    pub(super) protocol_errors: ProtocolErrors,
    pub(super) stream: StreamState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    Open,
    Ended,
}

/// A forwarded request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForwardedRequest {
    /// The sender's id.
    pub(super) id: Id,
    pub(super) kind: RequestKind,
}

/// The kind of a forwarded request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RequestKind {
    Prompt { session: String },
    Other { method: String },
}

/// A pending request of an end.
#[derive(Debug)]
pub(super) enum IncomingRequest {
    /// Forwarded with this id.
    Forwarded(u64),
    /// A queued prompt.
    Queued { session: String },
    /// A permission request.
    Permission { session: String, decider: Decider },
    /// Served by the caller.
    Host,
}

/// Who decides a permission request.
#[derive(Debug)]
pub(super) enum Decider {
    /// The caller.
    Host(PendingPermission),
    /// The editor, asked with this id.
    Editor(u64),
}

/// The data to forward a permission request.
#[derive(Debug, Default)]
pub(super) struct PendingPermission {
    /// The options' ids.
    pub(super) options: Vec<Value>,
    pub(super) params: Value,
    pub(super) extra: Map<String, Value>,
}

impl Connection {
    pub(super) fn new(limits: &Limits) -> Self {
        Connection {
            reader: MessageReader::new(limits),
            out: Outbox::new(limits.frame_out),
            sent: Pending::default(),
            incoming: Unanswered::default(),
            protocol_errors: ProtocolErrors::default(),
            stream: StreamState::Open,
        }
    }
}

impl Side {
    /// Returns the other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Side::Editor => Side::Agent,
            Side::Agent => Side::Editor,
        }
    }
}
