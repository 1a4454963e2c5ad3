//! One of the two ends that a relay stands between.

use serde_json::{Map, Value};

use super::Side;
use crate::limits::Limits;
use crate::message::Id;
use crate::message_reader::MessageReader;
use crate::outbox::Outbox;
use crate::pending::Pending;
use crate::strays::Strays;
use crate::waiting::Waiting;

/// The state of the connection with one end.
#[derive(Debug)]
pub(super) struct End {
    pub(super) reader: MessageReader,
    pub(super) out: Outbox,
    /// What it was asked, by ids that are new to it.
    pub(super) sent: Pending<Sent>,
    /// What it has asked, by its own ids. Whatever is in here is answered when it is taken out.
    pub(super) asked: Waiting<Asked>,
    pub(super) strays: Strays,
    pub(super) stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Open,
    Ended,
}

/// A request of the other end that was passed on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sent {
    /// The other end's id of it.
    pub(super) id: Id,
    pub(super) what: What,
}

/// What a request is about that was passed on, as far as its answer has a meaning here.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Prompt { session: String },
    Other { method: String },
}

/// Where a request is that an end waits for.
#[derive(Debug)]
pub(super) enum Asked {
    /// At the other end, by this id.
    Forwarded(u64),
    /// A prompt behind others of its session.
    Queued { session: String },
    /// A permission.
    Permission { session: String, at: At },
    /// With whoever serves.
    Host,
}

/// Who is to decide about a permission.
#[derive(Debug)]
pub(super) enum At {
    /// Whoever drives the relay.
    Owner(Undecided),
    /// The editor, by this id.
    Editor(u64),
}

/// What it takes to ask the editor.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// The ids of the options.
    pub(super) options: Vec<Value>,
    pub(super) params: Value,
    pub(super) beside: Map<String, Value>,
}

impl End {
    pub(super) fn new(limits: &Limits) -> Self {
        End {
            reader: MessageReader::new(limits),
            out: Outbox::new(limits.frame_out),
            sent: Pending::default(),
            asked: Waiting::default(),
            strays: Strays::default(),
            stream: Stream::Open,
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
