//! Events of a client.

use serde_json::Value;

use crate::capabilities::AgentInfo;
use crate::failure::Failure;
use crate::message::Id;
use crate::message_reader::NonJsonOutput;
use crate::permission::PermissionRequest;
use crate::tool_calls::ToolChange;
use crate::turn_end::TurnEnd;
use crate::update::{Update, UpdateScope};

/// An event caused by input or by elapsed time.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// `initialize` has been answered; sessions can be opened.
    Ready(AgentInfo),
    /// A session is open.
    Opened {
        /// The request that opened it.
        request: u64,
        /// The session id.
        session: String,
        /// The result, as received.
        result: Value,
    },
    /// Another request was answered.
    Answered {
        /// The request.
        request: u64,
        /// Its method.
        method: String,
        /// The result.
        result: Value,
    },
    /// A request other than a prompt failed.
    Failed {
        /// The request.
        request: u64,
        /// Its method.
        method: String,
        /// The cause.
        failure: Failure,
    },
    /// A session update.
    Update {
        /// The update, as received.
        update: Update,
        /// The turn it belongs to.
        scope: UpdateScope,
        /// For a tool call: the change of its state.
        change: Option<ToolChange>,
    },
    /// The turn drops updates from here on. Sent once per turn.
    Dropped {
        /// The session.
        session: String,
    },
    /// The agent request: [`Client::decide`](crate::Client::decide) answers one for a permission,
    /// [`Client::respond`](crate::Client::respond) any other.
    Request(RequestEvent),
    /// A notification that the client does not handle.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A turn has ended, late updates included.
    TurnEnded(Box<TurnEnd>),
    /// The agent has not ended a cancelled turn in time and must be killed. Sent once per turn.
    Overdue {
        /// The session.
        session: String,
    },
    /// A line that is not a message was skipped.
    NonJsonOutput(NonJsonOutput),
    /// An oversized message was skipped.
    TooLong {
        /// The length of its line in bytes.
        len: u64,
    },
    /// The agent's stream has ended, and everything pending has failed. The last event.
    Closed,
}

/// An event of an agent request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestEvent {
    /// The agent requests a permission.
    Permission {
        /// The request id.
        id: Id,
        /// The request, with the agent paths.
        request: Box<PermissionRequest>,
    },
    /// The agent requests a method that the caller serves.
    Host {
        /// The request id.
        id: Id,
        /// The method.
        method: String,
        /// The parameters, as received.
        params: Value,
    },
    /// A reported request was cancelled. A permission request has been answered already, as has any
    /// with [`Withdrawal::Ended`]; others must still be answered.
    Withdrawn {
        /// The request id.
        id: Id,
        /// The cause.
        why: Withdrawal,
    },
}

/// Why an agent request needs no answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The agent cancelled it.
    ByAgent,
    /// No decision was made in time.
    TimedOut,
    /// Its turn was cancelled.
    TurnCancelled,
    /// The agent's stream has ended; or the editor's has, and the request was answered with an
    /// error.
    Ended,
}

impl From<RequestEvent> for Event {
    fn from(event: RequestEvent) -> Self {
        Event::Request(event)
    }
}

impl Withdrawal {
    /// Returns the name used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Withdrawal::ByAgent => "by_agent",
            Withdrawal::TimedOut => "timed_out",
            Withdrawal::TurnCancelled => "turn_cancelled",
            Withdrawal::Ended => "ended",
        }
    }
}
