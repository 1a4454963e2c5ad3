//! What a client tells whoever drives it.

use serde_json::Value;

use crate::capabilities::{Agent, OtherVersion};
use crate::counts::Counts;
use crate::message::{Id, RpcError, code};
use crate::message_reader::Noise;
use crate::permission::PermissionRequest;
use crate::session::When;
use crate::timeline::Answer;
use crate::tool_calls::ToolChange;
use crate::update::Update;

/// Something has come of what was received, or of the time that passed.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The agent has said who it is; sessions can be opened.
    Ready(Agent),
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
        when: When,
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
    Noise(Noise),
    /// A message was skipped because it was too long.
    TooLong {
        /// The length of its line in bytes.
        len: u64,
    },
    /// The agent's stream has ended, and everything that waited has been told so. The last event.
    Closed,
}

/// Why something that was asked of the agent has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The agent says so.
    #[error("the agent answered: {0}")]
    Agent(#[source] RpcError),
    /// The agent wants `authenticate` first.
    #[error("the agent wants to be authenticated: {error}")]
    AuthRequired {
        /// What it answered.
        #[source]
        error: RpcError,
        /// The ways it has told of, as they came.
        methods: Vec<Value>,
    },
    /// It speaks another version.
    #[error(transparent)]
    OtherVersion(OtherVersion),
    /// The answer is not what it should be.
    #[error("the agent's answer has no '{0}'")]
    Incomplete(&'static str),
    /// The answer names a session as new that has a turn, or is being loaded.
    #[error("the agent's new session '{0}' is in use")]
    SessionInUse(String),
    /// The answer is longer than is read.
    #[error("the agent's answer of {0} bytes is too long")]
    TooLong(u64),
    /// There was no answer in time.
    #[error("the agent has not answered in time")]
    TimedOut,
    /// The agent's stream has ended.
    #[error("the agent has ended")]
    Ended,
}

/// Why a turn ended, in the agent's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It is done.
    EndTurn,
    /// No more tokens.
    MaxTokens,
    /// No more requests to the model.
    MaxTurnRequests,
    /// It will not.
    Refusal,
    /// It was asked to stop.
    Cancelled,
    /// Another word.
    Other(String),
    /// None.
    Untold,
}

/// Why a turn was cancelled by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCause {
    /// The user, or whoever drives this.
    Asked,
    /// A request for permission waited too long.
    PermissionTimeout,
    /// Nothing came for too long.
    Idle,
    /// All of it took too long.
    TooLong,
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

/// A turn, seen from its end.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// The session it was of.
    pub session: String,
    /// Its number within the session, from 1.
    pub turn: u64,
    /// How it ended.
    pub outcome: Result<StopReason, Failure>,
    /// Whether we had cancelled it, whatever the agent says of that.
    pub cancelled: Option<CancelCause>,
    /// The answer.
    pub answer: Answer,
    /// The result of the prompt as it came; `Null` without one.
    pub response: Value,
    /// What came during it.
    pub counts: Counts,
}

impl Failure {
    pub(crate) fn of(error: RpcError, agent: Option<&Agent>) -> Self {
        if error.code == code::AUTH_REQUIRED {
            let methods = agent.map(|agent| agent.auth_methods.clone()).unwrap_or_default();
            return Failure::AuthRequired { error, methods };
        }
        Failure::Agent(error)
    }
}

impl StopReason {
    /// Reads the result of a prompt.
    pub(crate) fn of(result: &Value) -> Self {
        match result.get("stopReason").and_then(Value::as_str) {
            Some("end_turn") => StopReason::EndTurn,
            Some("max_tokens") => StopReason::MaxTokens,
            Some("max_turn_requests") => StopReason::MaxTurnRequests,
            Some("refusal") => StopReason::Refusal,
            Some("cancelled") => StopReason::Cancelled,
            Some(word) => StopReason::Other(word.to_owned()),
            None => StopReason::Untold,
        }
    }

    /// The protocol's word for it, `""` for none.
    pub fn word(&self) -> &str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::MaxTurnRequests => "max_turn_requests",
            StopReason::Refusal => "refusal",
            StopReason::Cancelled => "cancelled",
            StopReason::Other(word) => word,
            StopReason::Untold => "",
        }
    }
}

impl CancelCause {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            CancelCause::Asked => "asked",
            CancelCause::PermissionTimeout => "permission_timeout",
            CancelCause::Idle => "idle",
            CancelCause::TooLong => "too_long",
        }
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stop_reasons_keep_their_words() {
        for word in
            ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error", ""]
        {
            assert_eq!(StopReason::of(&json!({"stopReason": word})).word(), word);
        }
        for untold in [json!(null), json!({}), json!({"stopReason": 7})] {
            assert_eq!(StopReason::of(&untold), StopReason::Untold, "{untold}");
        }
    }
}
