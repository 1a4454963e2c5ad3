//! The origin of a client's requests, and its checks on them.

use super::{Client, ConnectionState, SendError};
use crate::capabilities::AgentInfo;

/// The origin of the requests that a client sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requests {
    /// The caller. The client rejects requests that are out of order or not supported by the agent,
    /// and agent requests that the caller does not serve.
    #[default]
    Own,
    /// An editor, through a [`Relay`](crate::Relay). The client only follows the traffic: it sends
    /// every request, opens a session when it is first named, and passes requests for the editor to
    /// the caller. For replaying logs only, as the number of sessions is unbounded.
    Relayed,
}

impl Client {
    pub(super) fn is_relayed(&self) -> bool {
        self.config.requests == Requests::Relayed
    }

    /// Returns the agent's capabilities, if it has sent them.
    pub(super) fn ready(&self) -> Result<Option<&AgentInfo>, SendError> {
        match &self.state {
            ConnectionState::Ready(agent) => Ok(Some(agent)),
            ConnectionState::Started | ConnectionState::Initializing | ConnectionState::Closing
                if self.is_relayed() =>
            {
                Ok(None)
            }
            _ => Err(SendError::NotReady),
        }
    }

    /// Returns whether an agent request goes to the caller.
    pub(super) fn is_served(&self, method: &str) -> bool {
        let is_declared = || method.starts_with("fs/") || method.starts_with("terminal/");
        self.config.capabilities.method(method) || (self.is_relayed() && !is_declared())
    }

    /// Opens a session that the relayed editor has opened.
    pub(super) fn admit(&mut self, session: &str) {
        if self.is_relayed() && !self.sessions.contains_key(session) {
            let opened = self.open(session);
            self.sessions.insert(session.to_owned(), opened);
        }
    }
}
