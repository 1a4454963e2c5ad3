//! Errors of a session's start.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use aifo_agents::AgentError;
use aifo_host::{DirectoryError, ShimBinaryError, Version, WorkspaceError};
use aifo_network::NetworkError;
use aifo_proxy::BindError;
use aifo_sidecar::SidecarError;
use aifo_types::Kind;

/// Reasons for which a session did not start. Nothing of it remains.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no usable shim.
    #[error(transparent)]
    Shim(#[from] ShimBinaryError),
    /// The agent must not write to a directory.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The mount of the workspace would hide a system directory.
    #[error(
        "'{}' cannot be the workspace of containers: they have their own system there\n\
         hint: name the project's directory with --workspace",
        .0.display()
    )]
    SystemWorkspace(PathBuf),
    /// The agent container or state is not ready.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A directory of the session could not be created.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The proxy cannot listen.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// A sidecar did not start.
    #[error(transparent)]
    Sidecar(#[from] Arc<SidecarError>),
    /// A version was requested of a backend that has only one.
    #[error(
        "the local backend runs the installed {kind}, so it cannot provide version {version}\n\
         hint: omit the version, or use containers with --backend docker or podman"
    )]
    PinnedVersion {
        /// The kind.
        kind: Kind,
        /// The requested version.
        version: Version,
    },
    /// Another agent has locked the workspace.
    #[error(
        "an agent works in '{}' already: {holder}\n\
         hint: let both in with --force-share, or give this one a worktree of its own",
        workspace.display()
    )]
    WorkspaceLocked {
        /// The workspace.
        workspace: PathBuf,
        /// The agent and its session.
        holder: String,
    },
    /// An agent in a container cannot reach the session.
    #[error("the agent cannot run in a container: {0}")]
    AgentContainer(&'static str),
    /// The network by name cannot work.
    #[error(transparent)]
    NamedNetwork(#[from] NetworkError),
    /// Confinement is required, but the kernel does not support it.
    #[error(
        "tools cannot be confined: this kernel has no Landlock or too old a version\n\
         hint: remove the requirement, or use a backend with containers"
    )]
    NoConfinement,
    /// A namespace is required, but not possible here.
    #[error("tools cannot be confined in a namespace: {0}")]
    NoNamespace(String),
    /// A system call failed that every session needs.
    #[error("cannot start a session: {0}")]
    System(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn the_cause_of_a_system_error_is_in_the_chain() {
        // So a full disk has its remedy, whichever crate met it.
        let error = LaunchError::System(io::ErrorKind::StorageFull.into());
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    }
}
