//! Events of a relay.

use serde_json::Value;

use super::Side;
use crate::counts::Counts;
use crate::event::RequestEvent;
use crate::message::{Id, RpcError};
use crate::message_reader::NonJsonOutput;
use crate::tool_calls::ToolChange;
use crate::turn_end::StopReason;

/// An event caused by input or by elapsed time. Forwarding alone causes none.
#[derive(Clone, Debug, PartialEq)]
pub enum RelayEvent {
    /// The agent request. [`Relay::decide`](super::Relay::decide) answers one for a permission,
    /// or [`Relay::ask_editor`](super::Relay::ask_editor) forwards it to the editor;
    /// [`Relay::respond`](super::Relay::respond) answers any other.
    Request(RequestEvent),
    /// A tool call has changed its state.
    Tool {
        /// The session.
        session: String,
        /// The change.
        change: ToolChange,
    },
    /// The editor has answered a question of [`Relay::ask_question`](super::Relay::ask_question).
    QuestionAnswered {
        /// The caller id.
        question: String,
        /// The selected option; `None` if the editor selected none.
        option: Option<String>,
    },
    /// The editor has answered a permission request of the agent.
    PermissionAnswered {
        /// The agent request.
        id: Id,
        /// The selected option; `None` if the editor selected none.
        option: Option<Value>,
    },
    /// The editor has sent a prompt of an own command.
    /// [`Relay::answer_command`](super::Relay::answer_command) answers it.
    Command {
        /// The prompt.
        id: Id,
        /// The session.
        session: String,
        /// The command.
        name: String,
        /// The words after its name.
        words: Vec<String>,
    },
    /// A prompt was sent to the agent.
    TurnStarted,
    /// A prompt has been answered.
    TurnEnded(Box<RelayedTurn>),
    /// The agent has not ended a cancelled turn in time and must be killed. Sent once per turn.
    Overdue {
        /// The session.
        session: String,
    },
    /// A notification of the agent was dropped, as its method is neither in the schema nor allowed. Sent
    /// once for each of the first methods.
    NotificationRefused {
        /// The method.
        method: String,
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

impl From<RequestEvent> for RelayEvent {
    fn from(event: RequestEvent) -> Self {
        RelayEvent::Request(event)
    }
}
