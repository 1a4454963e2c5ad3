//! The agent container (`spec/agents.md#the-container`).
//!
//! It is created as a sidecar container, with the same runner. In addition it has the shims, the
//! proxy's socket and the agent's persistent files.

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_engine::{ContainerSpec, Mount, Value};
use aifo_types::{Kind, container_path};

use super::Shared;
use super::kind::{self, RunnerPlace};
use super::repository::Repository;

/// The configuration of the agent container.
#[derive(Clone, Debug)]
pub struct AgentContainer {
    /// The image.
    pub image: String,
    /// A directory of the session with links to `aifo-shim` for every tool and for `aifo-runner`, and an
    /// empty file `aifo-shim` as the mount point of the shim.
    pub shims: PathBuf,
    /// Paths of interpreters where the shim is mounted, as programs of the workspace name them.
    pub interpreters: Vec<PathBuf>,
    /// Further mounts of host directories.
    pub mounts: Vec<Mount>,
    /// Further variables; none is secret.
    pub variables: Vec<(OsString, Value)>,
    /// Directories in `/tmp` of which each container of the session has its own, so that no tool reaches
    /// what the agent programs listen at there. A tool could remove a mount point that its own container
    /// does not have.
    pub private: Vec<PathBuf>,
}

pub(super) fn container(
    shared: &Shared,
    agent: &AgentContainer,
    repository: &Repository,
) -> ContainerSpec {
    let kind = Kind::agent();
    let runner = RunnerPlace {
        // A link to the shim.
        program: container_path::RUNNER,
        mount: Mount::bind(&agent.shims, container_path::SHIM_DIR, true),
        sockets: container_path::AGENT_SOCKET_DIR,
    };
    let name = shared.container_name(&kind);
    let image = agent.image.clone();
    let spec = kind::container_with(shared, name, kind.as_str(), image, runner);
    let mut spec = kind::working(shared, spec);
    kind::add_repository(shared, &mut spec, repository);
    spec.mounts.push(Mount::bind(&shared.config.runner_program, container_path::SHIM, true));
    let shim = |path| Mount::bind(&shared.config.runner_program, path, true);
    spec.mounts.extend(agent.interpreters.iter().map(shim));
    spec.mounts.extend(agent.mounts.iter().cloned());
    spec.variables.extend(agent.variables.iter().cloned());
    let admitted = shared.config.admitted.iter();
    for admitted in admitted.filter(|it| it.kind.is_none()) {
        spec.mounts.extend(admitted.mount.clone());
        spec.variables.extend(admitted.variables.iter().cloned());
    }
    spec
}
