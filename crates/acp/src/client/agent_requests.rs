//! What the agent asks of us and waits for.

use std::time::Instant;

use serde_json::Value;

use crate::message::Id;
use crate::unanswered::Unanswered;

/// What a request that waits is about.
#[derive(Debug)]
pub(super) enum AgentRequest {
    /// A permission.
    Permission {
        session: String,
        /// The ids of its options.
        options: Vec<Value>,
        deadline: Option<Instant>,
    },
    /// Something that is served.
    Host,
}

impl Unanswered<AgentRequest> {
    /// The options of a permission that waits.
    pub(super) fn permission(&self, id: &Id) -> Option<&[Value]> {
        match self.get(id)? {
            AgentRequest::Permission { options, .. } => Some(options),
            AgentRequest::Host => None,
        }
    }

    pub(super) fn is_host(&self, id: &Id) -> bool {
        matches!(self.get(id), Some(AgentRequest::Host))
    }

    /// Takes out the oldest permission of a session.
    pub(super) fn take_permission_of(&mut self, of: &str) -> Option<Id> {
        let taken = self.take_first(|request| match request {
            AgentRequest::Permission { session, .. } => session == of,
            AgentRequest::Host => false,
        });
        taken.map(|(id, _)| id)
    }

    /// A permission whose deadline has come, and its session.
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
