//! Requests of both ends.

use serde_json::{Map, Value};

use crate::message::Id;
use crate::peer::Peer;

/// One end of the relay.
pub(super) type End = Peer<ForwardedRequest, IncomingRequest>;

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
    Prompt {
        session: String,
    },
    Other {
        method: String,
    },
    /// A question of the caller, with the caller id. It belongs to no request of the agent.
    Question {
        question: String,
    },
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
    /// A prompt of an own command.
    Command,
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
