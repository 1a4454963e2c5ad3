//! Errors of a configuration that gives no session.

use std::io;

use aifo_agents::KeysError;
use aifo_engine::EngineError;
use aifo_host::{ShimBinaryError, WorkspaceError};
use aifo_launch::ChoiceError;

use crate::error::ConfigError;

/// The reason for which a configuration gives no session on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A value is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The directory must not be a workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The shim was not found, or an agent could replace it.
    #[error(transparent)]
    Shim(#[from] ShimBinaryError),
    /// An agent could replace this program.
    #[error("cannot use '{program}' of {key}: {why}\nhint: choose another program")]
    Program {
        /// The program.
        program: String,
        /// The key that names it.
        key: String,
        /// The reason.
        why: String,
    },
    /// The engine does not answer.
    #[error("{error}\nhint: {hint}")]
    Engine {
        /// Its error.
        error: EngineError,
        /// The remedy.
        hint: String,
    },
    /// The backend is not available.
    #[error(transparent)]
    Backend(ChoiceError),
    /// A container cannot be attached to.
    #[error("cannot attach to a container\nhint: start the engine that runs it")]
    Attach(#[source] EngineError),
    /// A flag needs containers.
    #[error(
        "{flag} needs containers, but there are none: {reason}\n\
         hint: omit it, or choose an engine with --backend docker or podman"
    )]
    WithoutContainers {
        /// The flag.
        flag: String,
        /// The reason.
        reason: String,
    },
    /// An image was named for an agent on this machine.
    #[error("--image needs containers, but --backend local has none")]
    ImageWithoutContainers,
    /// The engine lacks the agent image.
    #[error(
        "{engine} has no image '{image}'\n\
         hint: build it with `aifo-coder images build {build}`, or name another with --image"
    )]
    MissingImage {
        /// The engine.
        engine: String,
        /// The image.
        image: String,
        /// The arguments that build it.
        build: String,
    },
    /// An agent could exceed a limit: not all of its requests to models pass through aifo.
    #[error(
        "{limit} does not limit this agent: {reason}\n\
         hint: run it in a container, with nothing but keys that aifo adds ('aifo-coder agents' lists \
         them), or with {limit} 0"
    )]
    Limit {
        /// The limit's flag.
        limit: String,
        /// The reason.
        reason: String,
    },
    /// Model keys cannot be read.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The memory with a model's key cannot be protected.
    #[error("cannot protect the memory that has the model's key")]
    Tracing(#[source] io::Error),
}

impl SessionError {
    /// Returns whether a flag is wrong, as opposed to a file, a variable or this machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, SessionError::Config(error) if error.is_usage())
    }
}
