//! Sidecars as containers of an engine (`spec/containers.md`).
//!
//! A container is started from any image with the runner as its first process. The runner connects to a
//! socket in a directory that is mounted read-only; the socket is then closed and removed.

mod agent;
mod attach;
mod engine_stderr;
mod http_proxies;
mod images;
mod kind;
mod named_network;
mod network_isolation;
mod pod;
mod repository;
mod runner_listener;
mod sockets;
mod starting;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use aifo_engine::{
    ContainerLimits, ContainerSpec, Engine, EngineCommand, EngineError, Flavor, Labels, Mount,
    Value, container_name,
};
use aifo_process::Restriction;
use aifo_types::{Kind, Subnet};
use tokio::sync::{Mutex, RwLock, watch};

use crate::backend::{Backend, Starting};
use crate::caches::Caches;
use crate::error::SidecarError;
use crate::local::Transport;
use crate::progress::Progress;
use crate::stack_server::StackServer;

use self::repository::{MountPoints, Recipient, Repository, RepositoryPlace};
use self::sockets::{HostSocket, SocketCovers};

pub use self::agent::AgentContainer;
pub use self::attach::{AttachBackend, AttachConfig};
pub use self::http_proxies::{ProxyLogin, proxy_logins, proxy_variables};
pub use self::images::Images;
pub use self::kind::{
    HOME as CONTAINER_HOME, TMP as CONTAINER_TMP, WORKSPACE as CONTAINER_WORKSPACE,
    cache_directories, cache_volume_owner, variables as container_variables,
};
pub use self::repository::{LinkedRepository, has_mount_points, remove_mount_points};
pub(crate) use self::runner_listener::RunnerListener;

/// The configuration of all containers of a session.
#[derive(Clone, Debug)]
pub struct ContainerConfig {
    /// The engine.
    pub engine: Engine,
    /// The labels of the session.
    pub labels: Labels,
    /// The `aifo-shim` binary, which is also the runner; on the engine host, statically linked.
    pub runner_program: PathBuf,
    /// The session directory, with a subdirectory for the socket of each runner.
    pub sockets: PathBuf,
    /// The workspace root; a real path.
    pub workspace: PathBuf,
    /// The repository outside of the workspace that the workspace belongs to.
    pub linked: Option<LinkedRepository>,
    /// Sockets of this machine's programs that containers get covers over: relative to the workspace, or
    /// absolute in the linked repository.
    pub sockets_of_host: Vec<PathBuf>,
    /// The session's temporary directory; a real path.
    pub tmp: PathBuf,
    /// The image of each kind.
    pub images: Images,
    /// The network of the containers.
    pub net: Net,
    /// Serves the stacks of [`Net::Names`]; required for it.
    pub stacks: Option<Arc<dyn StackServer>>,
    /// The engine's network that tools join with [`Net::Names`], instead of a stack without one.
    pub join: Option<String>,
    /// Published ports, as values of the engine's `--publish`.
    pub publish: Vec<String>,
    /// Podman's address pools, in its order, if they are not the defaults. With an empty list only
    /// podman's own rules isolate sessions.
    pub pools: Option<Vec<Subnet>>,
    /// The resource limits of each container.
    pub limits: ContainerLimits,
    /// The restrictions of system calls in every container.
    pub restrictions: Vec<Restriction>,
    /// The transport of the control connections.
    pub transport: Transport,
    /// The caches of downloads and builds.
    pub caches: Caches,
    /// Files and sockets of the user's that the user has admitted.
    pub admitted: Vec<Admitted>,
    /// True if containers lack certificates that this machine has.
    pub lacks_certificates: bool,
    /// The agent container, if the agent runs in one.
    pub agent: Option<AgentContainer>,
}

/// The network of a session's containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Net {
    /// One network stack for all containers, with its `localhost`.
    #[default]
    Shared,
    /// One network, and a stack for each container.
    Separate,
    /// Loopback only, with listeners that [`ContainerConfig::stacks`] serves: one stack for the tools,
    /// another for the agent.
    Names,
    /// As [`Net::Names`]; the server permits every name, to find out which are needed.
    Learn,
    /// Loopback only.
    None,
    /// The host's network stack.
    Host,
}

impl Net {
    /// Returns whether the stacks are served from outside.
    pub fn is_by_name(self) -> bool {
        matches!(self, Net::Names | Net::Learn)
    }
}

/// A file or socket of the user's that sidecars may use.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The kind that gets it; `None` for all.
    pub kind: Option<Kind>,
    /// Its read-only mount, if it is a file or a directory.
    pub mount: Option<Mount>,
    /// The variables by which tools find it.
    pub variables: Vec<(OsString, Value)>,
}

/// Sidecars as containers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ContainerBackend(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: ContainerConfig,
    sockets: Vec<Arc<HostSocket>>,
    /// The session's networks by stack, each locked while it is created.
    pods: std::sync::Mutex<BTreeMap<String, Arc<Mutex<Option<pod::Pod>>>>>,
    /// The mount points in the workspace repository.
    repository: std::sync::Mutex<RepositoryState>,
    /// True if starts are cancelled.
    cancelled: watch::Sender<bool>,
    /// Held for reading by each start, until the engine's command has ended.
    in_progress: Arc<RwLock<()>>,
    /// The names of all containers so far.
    names: std::sync::Mutex<BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct RepositoryState {
    /// In the workspace, and in the linked repository.
    mount_points: [Option<MountPoints>; 2],
    /// The last reported problem.
    reported: Option<String>,
}

impl ContainerBackend {
    /// Returns a backend without containers.
    pub fn new(config: ContainerConfig) -> Self {
        let sockets = match config.engine.facts().shares_host_kernel() {
            true => &config.sockets_of_host[..],
            false => &[],
        };
        ContainerBackend(Arc::new(Shared {
            sockets: sockets
                .iter()
                .filter_map(|it| HostSocket::open(&config.workspace, it))
                .collect(),
            config,
            pods: std::sync::Mutex::default(),
            repository: std::sync::Mutex::default(),
            cancelled: watch::Sender::new(false),
            in_progress: Arc::default(),
            names: std::sync::Mutex::default(),
        }))
    }

    /// Returns the commands that start sidecars of these kinds and the agent container, in order, and
    /// those that remove them. Errors: a path cannot be mounted.
    pub fn plan(&self, kinds: &[Kind]) -> Result<Vec<EngineCommand>, EngineError> {
        let shared = &self.0;
        let agent = shared.config.agent.iter().map(|_| Kind::agent());
        let kinds: Vec<Kind> = kinds.iter().cloned().chain(agent).collect();
        let mut commands = shared.pod_commands(&kinds)?;
        for kind in &kinds {
            let repository = shared.repository(kind);
            let spec = shared.sidecar(kind, &repository, &shared.socket_covers());
            commands.push(shared.config.engine.run(&spec)?);
        }
        let mut names: Vec<_> = kinds.iter().map(|kind| shared.container_name(kind)).collect();
        names.extend(shared.stacks_of(&kinds).iter().map(|(stack, _)| shared.pod_name(stack)));
        commands
            .push(shared.config.engine.command().args(["rm", "--force", "--volumes"]).args(names));
        if shared.has_network() {
            let network = shared.network_name();
            commands.push(shared.config.engine.command().args(["network", "rm", &network]));
        }
        Ok(commands)
    }

    /// Cancels starts: aborts pulls, and starts no further container.
    pub fn cancel_starts(&self) {
        self.0.cancelled.send_replace(true);
    }

    /// Cancels starts, removes everything of the session from the engine, and returns when nothing is
    /// left. Nothing can be started afterwards. Errors: a command of the engine failed.
    pub async fn clean(&self) -> Result<(), EngineError> {
        let shared = &self.0;
        self.cancel_starts();
        // A container whose creation is in progress is not listed yet, so wait for the starts.
        let settled = tokio::time::timeout(SETTLE_TIMEOUT, shared.in_progress.write()).await;
        if settled.is_err() {
            tracing::warn!("{} is still starting a container", shared.config.engine.flavor());
        }
        // Those of a start that goes on are removed below.
        shared.pods.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let engine = &shared.config.engine;
        let names = std::mem::take(&mut *shared.names());
        let names: Vec<String> = names.into_iter().collect();
        // They are all there is, and docker removes nothing later. Podman may still leave their network.
        let is_known =
            settled.is_ok() && !shared.has_network() && engine.flavor() == Flavor::Docker;
        let removed = match is_known && engine.remove_now(&names).await.is_ok() {
            true => Ok(()),
            false => remove_session(engine, &shared.config.labels.session).await,
        };
        shared.repository_state().mount_points = [None, None];
        removed
    }
}

/// Removes the containers and a session network, until none is listed.
pub async fn remove_session(engine: &Engine, session: &str) -> Result<(), EngineError> {
    let mut failure = None;
    for attempt in 0..REMOVE_ATTEMPTS {
        let listed =
            tokio::try_join!(engine.containers(Some(session)), engine.networks(Some(session)));
        let (containers, networks) = listed?;
        if containers.is_empty() && networks.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = containers.into_iter().map(|container| container.name).collect();
        failure = engine.remove_containers(&names).await.err();
        for network in networks {
            // This fails while a container in it is being removed.
            failure = engine.remove_network(&network.name).await.err().or(failure);
        }
        // Docker's first removal is usually all.
        if attempt > 0 || failure.is_some() || engine.flavor() == Flavor::Podman {
            tokio::time::sleep(REMOVE_PAUSE).await;
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Containers that remove themselves do so in a moment; after so many times [`REMOVE_PAUSE`] something is
/// wrong.
const REMOVE_ATTEMPTS: u32 = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(100);

/// Time for an engine to finish the creation of a container. Pulls are aborted.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);

impl Backend for ContainerBackend {
    fn start(&self, kind: Kind, progress: Progress) -> Starting {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let in_progress = Arc::clone(&shared.in_progress).read_owned().await;
            let of = kind.clone();
            // In its own task: a killed command can leave a container that is not listed yet. If the
            // caller has stopped waiting, the runner is dropped and ends.
            let start = tokio::spawn(async move {
                let _in_progress = in_progress;
                shared.start_runner(of, &progress).await
            });
            let failed = |error| SidecarError::Start { kind, source: std::io::Error::other(error) };
            start.await.map_err(failed)?
        })
    }
}

impl Shared {
    fn container_name(&self, kind: &Kind) -> String {
        container_name(kind.as_str(), &self.config.labels.session)
    }

    fn image(&self, kind: &Kind) -> String {
        self.agent(kind).map_or_else(|| self.config.images.of(kind), |agent| agent.image.clone())
    }

    fn sidecar(
        &self,
        kind: &Kind,
        repository: &Repository,
        sockets: &SocketCovers,
    ) -> ContainerSpec {
        let mut spec = match self.agent(kind) {
            Some(agent) => agent::container(self, agent, repository),
            None => kind::sidecar(self, kind, repository),
        };
        let (mounts, checks) = sockets.mounts();
        spec.mounts.extend(mounts);
        spec.args.extend(checks);
        spec
    }

    /// Finds the sockets to cover now. An engine on another kernel has none, as none can be connected to.
    fn socket_covers(&self) -> SocketCovers {
        SocketCovers::of(&self.config.workspace, &self.sockets)
    }

    /// Finds the repositories that a container gets: the workspace's and the linked one. An engine on another kernel has other device numbers, so its runner could not check the
    /// mounts: there are none.
    fn repository(&self, kind: &Kind) -> Repository {
        let config = &self.config;
        let linked = config.linked.as_ref();
        if !config.engine.facts().shares_host_kernel() {
            return Repository::default();
        }
        let recipient = match self.agent(kind) {
            Some(_) => Recipient::Agent,
            None => Recipient::Tools,
        };
        Repository::find(&config.workspace, linked, recipient)
    }

    /// Creates the mount points of these repositories, then finds them.
    fn prepare_repository(&self, kind: &Kind) -> Repository {
        let config = &self.config;
        if !config.engine.facts().shares_host_kernel() {
            return Repository::default();
        }
        let mut state = self.repository_state();
        let RepositoryState { mount_points, reported } = &mut *state;
        let [own, linked] = mount_points;
        prepare(own, &RepositoryPlace::Workspace(config.workspace.clone()));
        if let Some(repository) = &config.linked {
            prepare(linked, &RepositoryPlace::Linked(repository.clone()));
        }
        let repository = self.repository(kind);
        if let Some(problem) =
            repository.problem.as_ref().filter(|it| reported.as_ref() != Some(*it))
        {
            tracing::warn!("{problem}");
            *reported = Some(problem.clone());
        }
        repository
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn repository_state(&self) -> MutexGuard<'_, RepositoryState> {
        self.repository.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn agent(&self, kind: &Kind) -> Option<&AgentContainer> {
        self.config.agent.as_ref().filter(|_| *kind == Kind::agent())
    }
}

/// Creates the mount points of a repository in place of the earlier ones.
fn prepare(mount_points: &mut Option<MountPoints>, place: &RepositoryPlace) {
    if !mount_points.as_ref().is_some_and(MountPoints::is_current) {
        // Those of a repository that was replaced.
        mount_points.take();
    }
    // Also for the same repository, as they may have been removed. The earlier lock is released after
    // this one was taken.
    *mount_points = MountPoints::create(place);
}

fn engine_error(kind: &Kind, error: EngineError) -> SidecarError {
    SidecarError::Start { kind: kind.clone(), source: std::io::Error::other(error) }
}
