//! Counts a peer's protocol errors.

/// Counts of messages that do not fit the connection state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolErrors {
    /// Responses to completed requests.
    pub duplicate_responses: u64,
    /// Responses to requests that were never sent.
    pub unknown_responses: u64,
    /// Requests with the id of a pending one. One answer serves both.
    pub duplicate_requests: u64,
    /// Requests of unknown methods.
    pub unknown_requests: u64,
    /// Notifications that are not forwarded, such as requests without an id.
    pub refused_notifications: u64,
    /// Requests above [`Limits::requests`](crate::Limits::requests).
    pub excess_requests: u64,
    /// Updates of sessions that are not open.
    pub unknown_session_updates: u64,
    /// Updates without a session or a kind.
    pub invalid_updates: u64,
    /// `$/cancel_request` for requests that are not pending.
    pub unknown_cancellations: u64,
}

/// Increments a counter.
pub(crate) fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
