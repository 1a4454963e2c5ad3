//! Whose requests a client sends, and what it checks of them.

use super::{Client, ConnectionState, SendError};
use crate::capabilities::AgentInfo;

/// Whose requests a client sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requests {
    /// Its owner's. It refuses those whose time has not come or that the agent does not offer, and the
    /// agent's own requests that it does not serve.
    #[default]
    Own,
    /// An editor's, which a [`Relay`](crate::Relay) has passed. The client follows what was said: it
    /// sends all of them, opens a session when it is first named, and leaves to its owner what the
    /// relay leaves to the editor. For logs only, as sessions are not bounded.
    Relayed,
}

impl Client {
    pub(super) fn is_relayed(&self) -> bool {
        self.config.requests == Requests::Relayed
    }

    /// The agent, if it has said who it is.
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

    /// Whether a request of the agent's goes to the owner.
    pub(super) fn is_served(&self, method: &str) -> bool {
        let is_declared = || method.starts_with("fs/") || method.starts_with("terminal/");
        self.config.capabilities.method(method) || (self.is_relayed() && !is_declared())
    }

    /// Opens a session that others have opened.
    pub(super) fn admit(&mut self, session: &str) {
        if self.is_relayed() && !self.sessions.contains_key(session) {
            let opened = self.open(session);
            self.sessions.insert(session.to_owned(), opened);
        }
    }
}
