//! Sidecars as containers of an engine's (`spec/containers.md`).
//!
//! A container is started from any image with the runner of ours as its first process, and the runner
//! comes to us: it connects to a socket in a folder that is mounted read-only, which is gone as soon
//! as it has. Nothing listens after that, on either side.

mod agent;
mod apart;
mod attach;
mod door;
mod images;
mod kind;
mod pod;
mod starting;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aifo_engine::{
    ContainerSpec, Engine, EngineCommand, EngineError, Labels, Limits, Mount, Value,
};
use aifo_types::{Kind, Subnet};
use tokio::sync::{Mutex, RwLock, watch};

use crate::backend::{Backend, SidecarError, Starting};
use crate::caches::Caches;
use crate::local::Transport;
use crate::progress::Progress;

pub use self::agent::AgentContainer;
pub use self::attach::{AttachBackend, AttachConfig};
pub use self::images::Images;
pub use self::kind::{
    HOME as CONTAINER_HOME, TMP as CONTAINER_TMP, WORKSPACE as CONTAINER_WORKSPACE,
    cache_volume_owner,
};

/// What the containers of a session have in common.
#[derive(Clone, Debug)]
pub struct ContainerConfig {
    /// The engine that runs them.
    pub engine: Engine,
    /// The session, in whose name everything is made.
    pub labels: Labels,
    /// The `aifo-shim` binary, which is the runner; on the engine's host, and statically linked.
    pub runner_program: PathBuf,
    /// A folder of the session's own, in which each runner has one for its socket.
    pub sockets: PathBuf,
    /// The workspace root; a real path.
    pub workspace: PathBuf,
    /// The session's temporary directory; a real path.
    pub tmp: PathBuf,
    /// Which image a kind is made from.
    pub images: Images,
    /// What the containers are connected to.
    pub net: Net,
    /// Ports of the session that the host can be reached at, as the engine's `--publish` has them.
    pub publish: Vec<String>,
    /// What podman takes networks from, in its order, where its settings say something of their own.
    /// With none its rules alone keep sessions apart.
    pub pools: Option<Vec<Subnet>>,
    /// What each container may use.
    pub limits: Limits,
    /// What the runners are reached by.
    pub transport: Transport,
    /// Where tools keep downloads and builds.
    pub caches: Caches,
    /// What else of the user's is let in, by the user's own wish.
    pub admitted: Vec<Admitted>,
    /// The container that the agent runs in, if it does in one.
    pub agent: Option<AgentContainer>,
}

/// What the containers of a session are connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Net {
    /// One network stack for all: a server in one is at `localhost` in the others.
    #[default]
    Shared,
    /// A network of the session's, and a stack for each.
    Separate,
    /// Nothing.
    None,
    /// The host's own, with everything that listens there.
    Host,
}

/// Something of the user's that sidecars get to see.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Which kinds get it; `None` for all.
    pub kind: Option<Kind>,
    /// Where it is mounted, read-only, if it is a file or a folder.
    pub mount: Option<Mount>,
    /// What tells tools of it.
    pub variables: Vec<(OsString, Value)>,
}

/// Sidecars as containers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ContainerBackend(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: ContainerConfig,
    /// What holds the session's network, once there is something.
    pod: Mutex<Option<pod::Pod>>,
    /// Whether nothing is to come up any more.
    called_off: watch::Sender<bool>,
    /// Held for reading by whatever has been begun, until the engine has done it.
    begun: Arc<RwLock<()>>,
}

impl ContainerBackend {
    /// A backend that has started nothing yet.
    pub fn new(config: ContainerConfig) -> Self {
        ContainerBackend(Arc::new(Shared {
            config,
            pod: Mutex::new(None),
            called_off: watch::Sender::new(false),
            begun: Arc::default(),
        }))
    }

    /// Every command that sidecars of these kinds, and the agent, would be started with, in order, and
    /// that would take them down. Errors: a path cannot be mounted.
    pub fn plan(&self, kinds: &[Kind]) -> Result<Vec<EngineCommand>, EngineError> {
        let shared = &self.0;
        let agent = shared.config.agent.iter().map(|_| Kind::agent());
        let kinds: Vec<Kind> = kinds.iter().cloned().chain(agent).collect();
        let mut commands = shared.pod_commands(&kinds)?;
        for kind in &kinds {
            commands.push(shared.config.engine.run(&shared.sidecar(kind))?);
        }
        let mut names: Vec<_> = kinds.iter().map(|kind| shared.container_name(kind)).collect();
        names.extend(shared.has_pod().then(|| shared.pod_name()));
        commands
            .push(shared.config.engine.command().args(["rm", "--force", "--volumes"]).args(names));
        if shared.has_network() {
            let network = shared.network_name();
            commands.push(shared.config.engine.command().args(["network", "rm", &network]));
        }
        Ok(commands)
    }

    /// Nothing is to come up any more: what the engine still fetches is given up.
    pub fn call_off(&self) {
        self.0.called_off.send_replace(true);
    }

    /// Calls off what is on its way up, removes all that is left of the session on the engine, and
    /// returns when nothing is; nothing can be started afterwards. Errors: the engine did not do it.
    pub async fn clean(&self) -> Result<(), EngineError> {
        let shared = &self.0;
        self.call_off();
        // What an engine has begun it ends, whoever asked for it; only then can all of it be seen.
        let settled = tokio::time::timeout(SETTLING, shared.begun.write()).await;
        if settled.is_err() {
            tracing::warn!("{} is still busy with a start", shared.config.engine.flavor());
        }
        if let Ok(mut pod) = shared.pod.try_lock() {
            pod.take();
        }
        remove_session(&shared.config.engine, &shared.config.labels.session).await
    }
}

/// Removes the containers and the network of a session, whoever made them.
pub async fn remove_session(engine: &Engine, session: &str) -> Result<(), EngineError> {
    let mut failure = None;
    for _ in 0..ATTEMPTS {
        let containers = engine.containers(Some(session)).await?;
        let names: Vec<_> = containers.into_iter().map(|container| container.name).collect();
        failure = engine.remove_containers(&names).await.err();
        for network in engine.networks(Some(session)).await? {
            // It may still hold a container that is on its way out.
            failure = engine.remove_network(&network.name).await.err().or(failure);
        }
        if failure.is_none() && names.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    failure.map_or(Ok(()), Err)
}

/// Containers that remove themselves do so in a moment; after so many times [`PAUSE`] something is
/// wrong.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// How long an engine may take for the container that it is at. Pulls are not waited for.
const SETTLING: Duration = Duration::from_secs(20);

impl Backend for ContainerBackend {
    fn start(&self, kind: Kind, progress: Progress) -> Starting {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let begun = Arc::clone(&shared.begun).read_owned().await;
            let of = kind.clone();
            // On its own: a command that is killed halfway leaves what nobody can see yet. Whoever does
            // not wait any more lets the runner go as soon as it is there.
            let start = tokio::spawn(async move {
                let _begun = begun;
                shared.start_runner(of, &progress).await
            });
            let failed = |error| SidecarError::Start { kind, source: std::io::Error::other(error) };
            start.await.map_err(failed)?
        })
    }
}

impl Shared {
    fn container_name(&self, kind: &Kind) -> String {
        match self.agent(kind) {
            Some(_) => format!("aifo-agent-{}", self.config.labels.session),
            None => format!("aifo-tc-{kind}-{}", self.config.labels.session),
        }
    }

    /// The image of a kind's container.
    fn image(&self, kind: &Kind) -> String {
        self.agent(kind).map_or_else(|| self.config.images.of(kind), |agent| agent.image.clone())
    }

    /// The container of a kind.
    fn sidecar(&self, kind: &Kind) -> ContainerSpec {
        match self.agent(kind) {
            Some(agent) => agent::container(self, agent),
            None => kind::sidecar(self, kind),
        }
    }

    /// The agent's container, if this is its kind.
    fn agent(&self, kind: &Kind) -> Option<&AgentContainer> {
        self.config.agent.as_ref().filter(|_| *kind == Kind::agent())
    }
}

fn engine_error(kind: &Kind, error: EngineError) -> SidecarError {
    SidecarError::Start { kind: kind.clone(), source: std::io::Error::other(error) }
}
