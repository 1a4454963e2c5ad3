//! One of the two ends that a relay stands between.

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
    /// What it was asked, by ids that are new to it.
    pub(super) sent: Pending<ForwardedRequest>,
    /// What it has asked, by its own ids. Whatever is in here is answered when it is taken out.
    pub(super) incoming: Unanswered<IncomingRequest>,
    pub(super) protocol_errors: ProtocolErrors,
    pub(super) stream: StreamState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    Open,
    Ended,
}

/// A request of the other end that was passed on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ForwardedRequest {
    /// The other end's id of it.
    pub(super) id: Id,
    pub(super) kind: RequestKind,
}

/// What a request is about that was passed on, as far as its answer has a meaning here.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RequestKind {
    Prompt { session: String },
    Other { method: String },
}

/// Where a request is that an end waits for.
#[derive(Debug)]
pub(super) enum IncomingRequest {
    /// At the other end, by this id.
    Forwarded(u64),
    /// A prompt behind others of its session.
    Queued { session: String },
    /// A permission.
    Permission { session: String, decider: Decider },
    /// With whoever serves.
    Host,
}

/// Who is to decide about a permission.
#[derive(Debug)]
pub(super) enum Decider {
    /// Whoever drives the relay.
    Host(PendingPermission),
    /// The editor, by this id.
    Editor(u64),
}

/// What it takes to ask the editor.
#[derive(Debug, Default)]
pub(super) struct PendingPermission {
    /// The ids of the options.
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
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Side::Editor => Side::Agent,
            Side::Agent => Side::Editor,
        }
    }
}
