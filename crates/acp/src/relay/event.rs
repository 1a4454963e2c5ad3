//! What a relay tells whoever drives it.

use serde_json::Value;

use super::Side;
use crate::counts::Counts;
use crate::event::Withdrawal;
use crate::message::{Id, RpcError};
use crate::message_reader::NonJsonOutput;
use crate::permission::PermissionRequest;
use crate::tool_calls::ToolChange;
use crate::turn_end::StopReason;

/// Something has come of what was received, or of the time that passed. What is only passed on is not
/// told.
#[derive(Clone, Debug, PartialEq)]
pub enum RelayEvent {
    /// The agent asks for permission: [`Relay::decide`](super::Relay::decide) answers,
    /// [`Relay::ask_editor`](super::Relay::ask_editor) leaves it to the person at the editor.
    Permission {
        /// The request's id.
        id: Id,
        /// What is asked, with paths as the agent names them.
        request: Box<PermissionRequest>,
    },
    /// The agent asks for something that is ours to serve;
    /// [`Relay::respond`](super::Relay::respond) answers.
    Request {
        /// The request's id.
        id: Id,
        /// What is asked for.
        method: String,
        /// The parameters as they came, with paths as the agent names them.
        params: Value,
    },
    /// A request that was told is wanted no more. A permission has been answered with that, and so has
    /// any request that ends with [`Withdrawal::Ended`]; any other is still to be responded to.
    Withdrawn {
        /// The request's id.
        id: Id,
        /// Why.
        why: Withdrawal,
    },
    /// A tool call has come to stand elsewhere.
    Tool {
        /// The session it is of.
        session: String,
        /// What became of it.
        change: ToolChange,
    },
    /// A prompt has been answered, and the editor told.
    TurnEnded(Box<RelayedTurn>),
    /// The agent was asked to stop and has not: it has to be ended. Told once a turn.
    Overdue {
        /// The session whose turn does not end.
        session: String,
    },
    /// Something that is no message was skipped; the other end never sees it.
    NonJsonOutput {
        /// Who sent it.
        side: Side,
        /// What it is.
        non_json: NonJsonOutput,
    },
    /// A message was skipped because it is longer than is read, or than is written. Whoever waits for
    /// it was told.
    TooLong {
        /// Who sent it.
        side: Side,
        /// The length of its line in bytes.
        len: u64,
    },
    /// One end's stream has ended, and everything that waited for it has been told so.
    Ended {
        /// Whose.
        side: Side,
    },
    /// The editor has gone, and nothing that it asked for is awaited any more, or has been for too
    /// long: the agent's input can be closed. Told once.
    Released,
    /// Both streams have ended. The last event.
    Closed,
}

/// A prompt that was passed on, seen from its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayedTurn {
    /// The session it was of.
    pub session: String,
    /// Its number within the session, from 1.
    pub turn: u64,
    /// How it ended. An error is without its data.
    pub outcome: Result<StopReason, RpcError>,
    /// Whether the agent had been asked to stop, whatever it says of that.
    pub was_cancelled: bool,
    /// What came during it.
    pub counts: Counts,
}
