//! The container that the agent itself runs in (`spec/agents.md#the-container`).
//!
//! It is made as a sidecar's is, by the same runner, and differs in what it sees: the shims and the
//! proxy's socket, which no sidecar does, and what the agent keeps.

use std::ffi::OsString;
use std::path::PathBuf;

use aifo_engine::{ContainerSpec, Mount, Value};
use aifo_types::Kind;

use super::Shared;
use super::kind::{self, RunnerPlace};

/// What is the agent's own.
#[derive(Clone, Debug)]
pub struct AgentContainer {
    /// What it is made from.
    pub image: String,
    /// A folder of the session's with links to `aifo-shim` under every tool's name, and as
    /// `aifo-runner`; a file of that name is there for the shim to be mounted over.
    pub shims: PathBuf,
    /// What else of the host it sees.
    pub mounts: Vec<Mount>,
    /// What it is told; nothing secret.
    pub variables: Vec<(OsString, Value)>,
}

/// Where the shims are.
const SHIMS: &str = "/opt/aifo/bin";
/// What their links lead to.
const SHIM: &str = "/opt/aifo/bin/aifo-shim";
/// The same binary is the runner there.
const RUNNER: &str = "/opt/aifo/bin/aifo-runner";
/// Apart from the proxy's socket, which is in `/run/aifo`.
const SOCKETS: &str = "/run/aifo-agent";

pub(super) fn container(shared: &Shared, agent: &AgentContainer) -> ContainerSpec {
    let kind = Kind::agent();
    let runner = RunnerPlace {
        program: RUNNER,
        mount: Mount::bind(&agent.shims, SHIMS, true),
        sockets: SOCKETS,
    };
    let name = shared.container_name(&kind);
    let image = agent.image.clone();
    let spec = kind::container_with(shared, name, kind.as_str(), image, runner);
    let mut spec = kind::working(shared, spec);
    spec.mounts.push(Mount::bind(&shared.config.runner_program, SHIM, true));
    spec.mounts.extend(agent.mounts.iter().cloned());
    spec.variables.extend(agent.variables.iter().cloned());
    let admitted = shared.config.admitted.iter();
    for admitted in admitted.filter(|it| it.kind.is_none()) {
        spec.mounts.extend(admitted.mount.clone());
        spec.variables.extend(admitted.variables.iter().cloned());
    }
    spec
}
