//! Why a request or a turn failed.

use serde_json::Value;

use crate::capabilities::{AgentInfo, UnsupportedVersion};
use crate::message::{RpcError, code};

/// Why something that was asked of the agent has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The agent says so.
    #[error("the agent answered: {0}")]
    Agent(#[source] RpcError),
    /// The agent wants `authenticate` first.
    #[error("the agent wants to be authenticated: {error}")]
    AuthRequired {
        /// What it answered.
        #[source]
        error: RpcError,
        /// The ways it has told of, as they came.
        methods: Vec<Value>,
    },
    /// It speaks another version.
    #[error(transparent)]
    UnsupportedVersion(UnsupportedVersion),
    /// The answer is not what it should be.
    #[error("the agent's answer has no '{0}'")]
    Incomplete(&'static str),
    /// The answer names a session as new that has a turn, or is being loaded.
    #[error("the agent's new session '{0}' is in use")]
    SessionInUse(String),
    /// The answer is longer than is read.
    #[error("the agent's answer of {0} bytes is too long")]
    TooLong(u64),
    /// There was no answer in time.
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
