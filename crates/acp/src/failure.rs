//! Why a request or a turn failed.

use serde_json::Value;

use crate::capabilities::{AgentInfo, UnsupportedVersion};
use crate::message::{RpcError, code};

/// Why a request to the agent failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The agent answered with an error.
    #[error("the agent answered: {0}")]
    Agent(#[source] RpcError),
    /// The agent requires `authenticate` first.
    #[error("the agent requires authentication: {error}")]
    AuthRequired {
        /// The agent's error.
        #[source]
        error: RpcError,
        /// The authentication methods that it declared, as received.
        methods: Vec<Value>,
    },
    /// The agent uses another protocol version.
    #[error(transparent)]
    UnsupportedVersion(UnsupportedVersion),
    /// The answer lacks a member.
    #[error("the agent's answer has no '{0}'")]
    Incomplete(&'static str),
    /// The new session's id belongs to one that has a turn or is loading.
    #[error("the agent returned the id of a session in use: '{0}'")]
    SessionInUse(String),
    /// The answer exceeds [`Limits::frame`](crate::Limits::frame).
    #[error("the agent's answer of {0} bytes is too long")]
    TooLong(u64),
    /// The deadline has passed.
    #[error("the agent has not answered in time")]
    TimedOut,
    /// The agent's stream has ended.
    #[error("the agent has ended")]
    Ended,
}

impl Failure {
    pub(crate) fn of(error: RpcError, agent: Option<&AgentInfo>) -> Self {
        if error.code == code::AUTH_REQUIRED {
            let methods = agent.map(|agent| agent.auth_methods.clone()).unwrap_or_default();
            return Failure::AuthRequired { error, methods };
        }
        Failure::Agent(error)
    }
}
