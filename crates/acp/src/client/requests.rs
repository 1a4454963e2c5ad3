//! The client's checks on requests.

use super::{Client, ConnectionState, SendError};
use crate::capabilities::AgentInfo;

impl Client {
    /// Returns the agent's capabilities. Errors: it has not sent them, or the connection ends.
    pub(super) fn ready(&self) -> Result<&AgentInfo, SendError> {
        match &self.state {
            ConnectionState::Ready(agent) => Ok(agent),
            _ => Err(SendError::NotReady),
        }
    }

    /// Returns whether an agent request goes to the caller.
    pub(super) fn is_served(&self, method: &str) -> bool {
        self.config.capabilities.method(method)
    }
}
