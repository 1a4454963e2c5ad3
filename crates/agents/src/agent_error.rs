//! Errors of an agent container and state.

use std::io;
use std::sync::Arc;

use aifo_host::{DirectoryError, WorkspaceError};
use aifo_proxy::BindError;
use aifo_sidecar::SidecarError;

/// Reasons for which an agent container or state is not ready.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The agent must not write to a directory of its state.
    #[error(transparent)]
    State(#[from] WorkspaceError),
    /// The agent localhost has no listener for model keys or a forge.
    #[error(
        "cannot listen on port {port} of the agent's localhost: {reason}\n\
         hint: pass the agent its keys with --keys pass"
    )]
    Keys {
        /// The port.
        port: u16,
        /// Why not.
        reason: String,
    },
    /// A directory could not be created.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The agent proxy cannot listen.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The agent container did not start.
    #[error(transparent)]
    Container(#[from] Arc<SidecarError>),
    /// A system call failed.
    #[error("cannot start a session: {0}")]
    System(#[from] io::Error),
}
