//! Events of a relay.

use serde_json::Value;

use super::Side;
use crate::counts::Counts;
use crate::event::Withdrawal;
use crate::message::{Id, RpcError};
use crate::message_reader::NonJsonOutput;
use crate::permission::PermissionRequest;
use crate::tool_calls::ToolChange;
use crate::turn_end::StopReason;

/// An event caused by input or by elapsed time. Forwarding alone causes none.
#[derive(Clone, Debug, PartialEq)]
pub enum RelayEvent {
    /// The agent requests a permission. [`Relay::decide`](super::Relay::decide) answers,
    /// [`Relay::ask_editor`](super::Relay::ask_editor) forwards it to the editor.
    Permission {
        /// The request's id.
        id: Id,
        /// The request, with the agent's paths.
        request: Box<PermissionRequest>,
    },
    /// The agent requests a method that the caller serves;
    /// [`Relay::respond`](super::Relay::respond) answers.
    Request {
        /// The request's id.
        id: Id,
        /// The method.
        method: String,
        /// The parameters, with the agent's paths.
        params: Value,
    },
    /// A reported request was cancelled. A permission request has been answered already, as has any
    /// with [`Withdrawal::Ended`]; others must still be answered.
    Withdrawn {
        /// The request's id.
        id: Id,
        /// The cause.
        why: Withdrawal,
    },
    /// A tool call has changed its state.
    Tool {
        /// The session.
        session: String,
        /// The change.
        change: ToolChange,
    },
    /// A prompt has been answered.
    TurnEnded(Box<RelayedTurn>),
    /// The agent has not ended a cancelled turn in time and must be killed. Sent once per turn.
    Overdue {
        /// The session.
        session: String,
    },
    /// A line that is not a message was dropped.
    NonJsonOutput {
        /// The sender.
        side: Side,
        /// The reason.
        non_json: NonJsonOutput,
    },
    /// An oversized message was dropped, and its request answered with an error.
    TooLong {
        /// The sender.
        side: Side,
        /// The length of its line in bytes.
        len: u64,
    },
    /// A stream has ended, and requests to that end have failed.
    Ended {
        /// The end.
        side: Side,
    },
    /// The editor has disconnected, and nothing is pending or everything pending is late: the
    /// agent's stdin can be closed. Sent once.
    Released,
    /// Both streams have ended. The last event.
    Closed,
}

/// The outcome of a forwarded prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayedTurn {
    /// The session.
    pub session: String,
    /// The turn's number within the session, from 1.
    pub turn: u64,
    /// The stop reason, or the error without its data.
    pub outcome: Result<StopReason, RpcError>,
    /// True if the turn was cancelled, whatever the stop reason.
    pub was_cancelled: bool,
    /// Counts of the turn's updates.
    pub counts: Counts,
}
