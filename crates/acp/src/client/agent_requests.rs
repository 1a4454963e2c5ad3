//! The agent's requests that wait for an answer.

use std::time::Instant;

use serde_json::Value;

use crate::message::Id;
use crate::unanswered::Unanswered;

/// A pending request of the agent.
#[derive(Debug)]
pub(super) enum AgentRequest {
    /// `session/request_permission`.
    Permission {
        session: String,
        /// The options' ids.
        options: Vec<Value>,
        deadline: Option<Instant>,
    },
    /// A request that the caller serves.
    Host,
}

impl Unanswered<AgentRequest> {
    /// Returns the options of a pending permission request.
    pub(super) fn permission(&self, id: &Id) -> Option<&[Value]> {
        match self.get(id)? {
            AgentRequest::Permission { options, .. } => Some(options),
            AgentRequest::Host => None,
        }
    }

    pub(super) fn is_host(&self, id: &Id) -> bool {
        matches!(self.get(id), Some(AgentRequest::Host))
    }

    /// Removes the oldest permission request of a session.
    pub(super) fn take_permission_of(&mut self, of: &str) -> Option<Id> {
        let taken = self.take_first(|request| match request {
            AgentRequest::Permission { session, .. } => session == of,
            AgentRequest::Host => false,
        });
        taken.map(|(id, _)| id)
    }

    /// Returns a permission request whose deadline has passed, with its session.
    pub(super) fn expired(&self, now: Instant) -> Option<(Id, String)> {
        self.iter().find_map(|(id, request)| match request {
            AgentRequest::Permission { session, deadline: Some(deadline), .. }
                if *deadline <= now =>
            {
                Some((id.clone(), session.clone()))
            }
            _ => None,
        })
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = self.iter().filter_map(|(_, request)| match request {
            AgentRequest::Permission { deadline, .. } => *deadline,
            AgentRequest::Host => None,
        });
        deadlines.min()
    }
}
