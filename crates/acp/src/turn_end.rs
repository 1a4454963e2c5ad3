//! The outcome of a turn.

use serde_json::Value;

use crate::answer::Answer;
use crate::counts::Counts;
use crate::failure::Failure;

/// The outcome of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// The session.
    pub session: String,
    /// The turn's number within the session, from 1.
    pub turn: u64,
    /// The stop reason, or the failure.
    pub outcome: Result<StopReason, Failure>,
    /// Why the client cancelled the turn, if it did, whatever the agent's stop reason.
    pub cancelled: Option<CancelCause>,
    /// The answer.
    pub answer: Answer,
    /// The prompt's result, as received; `Null` without one.
    pub response: Value,
    /// Counts of the turn's updates.
    pub counts: Counts,
}

/// The stop reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// `end_turn`
    EndTurn,
    /// `max_tokens`
    MaxTokens,
    /// `max_turn_requests`
    MaxTurnRequests,
    /// `refusal`
    Refusal,
    /// `cancelled`
    Cancelled,
    /// An unknown one.
    Other(String),
    /// Missing.
    Missing,
}

/// Why the client cancelled a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCause {
    /// The caller requested it.
    Requested,
    /// A permission request timed out.
    PermissionTimeout,
    /// No input for [`Limits::prompt_idle`](crate::Limits::prompt_idle).
    Idle,
    /// The turn exceeded [`Limits::prompt_total`](crate::Limits::prompt_total).
    TooLong,
}

impl StopReason {
    /// Parses the result of a prompt.
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

    /// Returns the protocol's name, `""` if missing.
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
    /// Returns the name used in reports.
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
