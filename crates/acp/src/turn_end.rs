//! The outcome of a turn.

use serde_json::Value;

use crate::counts::Counts;
use crate::failure::Failure;
use crate::timeline::Answer;

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
    Missing,
}

/// Why a turn was cancelled by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCause {
    /// The user, or whoever drives this.
    Requested,
    /// A request for permission waited too long.
    PermissionTimeout,
    /// Nothing came for too long.
    Idle,
    /// All of it took too long.
    TooLong,
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
            None => StopReason::Missing,
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
            StopReason::Missing => "",
        }
    }
}

impl CancelCause {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            CancelCause::Requested => "asked",
            CancelCause::PermissionTimeout => "permission_timeout",
            CancelCause::Idle => "idle",
            CancelCause::TooLong => "too_long",
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
            assert_eq!(StopReason::of(&untold), StopReason::Missing, "{untold}");
        }
    }
}
