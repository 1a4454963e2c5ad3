//! What a client tells whoever drives it.

use serde_json::Value;

use crate::capabilities::AgentInfo;
use crate::failure::Failure;
use crate::message::Id;
use crate::message_reader::NonJsonOutput;
use crate::permission::PermissionRequest;
use crate::tool_calls::ToolChange;
use crate::turn_end::TurnEnd;
use crate::update::{Update, UpdateScope};

/// Something has come of what was received, or of the time that passed.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The agent has said who it is; sessions can be opened.
    Ready(AgentInfo),
    /// A session is open.
    Opened {
        /// The request it was asked for with.
        request: u64,
        /// Its id.
        session: String,
        /// All that was answered.
        result: Value,
    },
    /// Another request was answered.
    Answered {
        /// Which.
        request: u64,
        /// What it asked for.
        method: String,
        /// The answer.
        result: Value,
    },
    /// A request that was no prompt has failed.
    Failed {
        /// Which.
        request: u64,
        /// What it asked for.
        method: String,
        /// Why.
        failure: Failure,
    },
    /// News of a session.
    Update {
        /// As they came.
        update: Update,
        /// What they belong to.
        scope: UpdateScope,
        /// If they are of a tool call: what became of it.
        change: Option<ToolChange>,
    },
    /// From here on a turn does not keep everything. Told once.
    Dropped {
        /// The session.
        session: String,
    },
    /// The agent asks for permission; [`Client::decide`](crate::Client::decide) answers.
    Permission {
        /// The request's id.
        id: Id,
        /// What is asked.
        request: Box<PermissionRequest>,
    },
    /// The agent asks for something that is served; [`Client::respond`](crate::Client::respond)
    /// answers.
    Request {
        /// The request's id.
        id: Id,
        /// What is asked for.
        method: String,
        /// The parameters as they came.
        params: Value,
    },
    /// A request of the agent's is wanted no more. A permission has been answered with that; whatever
    /// else was asked for is still to be responded to, unless the stream has ended.
    Withdrawn {
        /// The request's id.
        id: Id,
        /// Why.
        why: Withdrawal,
    },
    /// A notification that has no meaning here.
    Notification {
        /// Its name.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A turn is over, and all that belongs to it has come.
    TurnEnded(Box<TurnEnd>),
    /// The agent was asked to stop and has not: it has to be ended. Told once.
    Overdue {
        /// The session whose turn does not end.
        session: String,
    },
    /// Something that is no message was skipped.
    NonJsonOutput(NonJsonOutput),
    /// A message was skipped because it was too long.
    TooLong {
        /// The length of its line in bytes.
        len: u64,
    },
    /// The agent's stream has ended, and everything that waited has been told so. The last event.
    Closed,
}

/// Why a request of the agent's is wanted no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The agent says so.
    ByAgent,
    /// Nobody decided in time.
    TimedOut,
    /// The turn was cancelled.
    TurnCancelled,
    /// The agent's stream has ended, so there is no answer; or the editor's has, and it was answered.
    Ended,
}

impl Withdrawal {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Withdrawal::ByAgent => "by_agent",
            Withdrawal::TimedOut => "timed_out",
            Withdrawal::TurnCancelled => "turn_cancelled",
            Withdrawal::Ended => "ended",
        }
    }
}
