//! Why a session does not come up.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use aifo_proxy::BindError;
use aifo_sidecar::SidecarError;
use aifo_types::Kind;

use crate::shim_binary::ShimBinaryError;
use crate::toolchain::Version;
use crate::workspace_check::WorkspaceError;

/// Why a session did not come up. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no usable shim.
    #[error(transparent)]
    Shim(#[from] ShimBinaryError),
    /// An agent must not be given this directory.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Containers would not find their own system any more.
    #[error(
        "'{}' cannot be the workspace of containers: they have their own system there\n\
         hint: name the project's folder with --workspace",
        .0.display()
    )]
    SystemWorkspace(PathBuf),
    /// A folder of the session could not be made.
    #[error("cannot make the session's folder '{}': {source}", path.display())]
    Directory {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Nobody could connect.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// A sidecar did not come up.
    #[error(transparent)]
    Sidecar(#[from] Arc<SidecarError>),
    /// A version was asked for where there is none to choose from.
    #[error(
        "the local backend runs the {kind} that is installed, it cannot give version {version}\n\
         hint: --backend docker brings up a sidecar of that version"
    )]
    PinnedVersion {
        /// Of which kind.
        kind: Kind,
        /// What was asked for.
        version: Version,
    },
    /// Another agent works there.
    #[error(
        "an agent works in '{}' already: {holder}\n\
         hint: let both in with --force-share, or give this one a worktree of its own",
        workspace.display()
    )]
    WorkspaceLocked {
        /// Where.
        workspace: PathBuf,
        /// Who.
        holder: String,
    },
    /// An agent in a container cannot reach the session.
    #[error("the agent cannot run in a container: {0}")]
    AgentContainer(&'static str),
    /// Confinement was required, and the kernel cannot do it.
    #[error(
        "tools cannot be confined: this kernel has no Landlock, or one that is too old\n\
         hint: leave the requirement away, or use a backend with containers"
    )]
    NoConfinement,
    /// The system refused something every session needs.
    #[error("cannot start a session: {0}")]
    System(#[from] io::Error),
}
