//! What a peer sends that fits nowhere.

/// What did not fit anywhere, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolErrors {
    /// Answers to requests that had been completed.
    pub duplicate_responses: u64,
    /// Answers to requests that were never sent.
    pub unknown_responses: u64,
    /// Requests with the id of one that waits. The answer to that is the answer to both.
    pub duplicate_requests: u64,
    /// Requests that nobody serves.
    pub unknown_requests: u64,
    /// Requests above [`Limits::requests`](crate::Limits::requests).
    pub excess_requests: u64,
    /// Updates of sessions that are not ours.
    pub unknown_session_updates: u64,
    /// Updates without a session or a kind.
    pub invalid_updates: u64,
    /// Withdrawals of what does not wait.
    pub unknown_cancellations: u64,
}

/// One more.
pub(crate) fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
