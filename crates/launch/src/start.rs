//! Bringing a session up: from the first folder to the moment at which clients are let in.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use aifo_process::raise_open_files;
use aifo_proxy::{Listener, Proxy, ProxyConfig, RunningTable, SharedDirectories, Transcript};
use aifo_sidecar::{
    CONTAINER_TMP, CONTAINER_WORKSPACE, Caches, ContainerBackend, Fleet, LocalBackend,
    LocalConfinement, Transport,
};
use aifo_types::{Endpoint, Kind, Token};
use nix::unistd::getuid;
use tokio::task::JoinSet;

use crate::backend::{self, Chosen, SidecarBackend};
use crate::call_log::{self, CallLogs};
use crate::call_stats::CallCounter;
use crate::check;
use crate::config::{SessionConfig, Verbosity};
use crate::door::{Door, DoorConfig};
use crate::error::LaunchError;
use crate::folder::{Folder, PREFIX, TMP_SUFFIX, runtime_directory, temporary_directory};
use crate::ground::CheckedWorkspace;
use crate::place;
use crate::project::record_session;
use crate::running::{RUNNING_TABLE, SessionInfo, in_order, keep_card};
use crate::serving::Serving;
use crate::session::{Session, clean};
use crate::shims::{link_tools, path_without_shims};
use crate::toolchain::{Toolchain, VersionSource};
use crate::trusted::TrustedPrograms;

impl Session {
    /// Brings everything up: folders, shims, sidecars, proxy, in this order. It must be called on
    /// a tokio runtime with IO and time, and serves for as long as that runs.
    pub async fn start(config: SessionConfig) -> Result<Self, LaunchError> {
        match Session::start_unless(config, pending::<Infallible>()).await? {
            Ok(session) => Ok(session),
            Err(never) => match never {},
        }
    }

    /// [`Session::start`], until it is called off: then what is up already is taken down, and `Err`
    /// tells what called it off. To drop a start instead is to leave its containers to chance.
    pub async fn start_unless<T>(
        mut config: SessionConfig,
        called_off: impl Future<Output = T>,
    ) -> Result<Result<Self, T>, LaunchError> {
        let ground = Ground::lay(&config)?;
        // Listening comes before the sidecars, so that a socket in use costs nobody a wait.
        let front = Front::open(config.listen.take(), ground.folder.path())?;
        let backends = Backends::choose(&config, &ground).await?;
        let places = SharedDirectories::new(ground.workspace.clone(), backends.shared.clone())?;
        let containers = backends.chosen.containers.clone();
        // One part may fail while the other is still on its way: all of it is taken down then.
        let started = tokio::select! {
            started = bring_up(&config, &ground, backends) => started,
            told = called_off => {
                clean(containers.as_ref()).await;
                return Ok(Err(told));
            }
        };
        match started {
            Ok((fleet, door)) => {
                let up = Up { fleet: Arc::new(fleet), door, containers, places };
                Session::open(config, ground, front, up).map(Ok)
            }
            Err(error) => {
                clean(containers.as_ref()).await;
                Err(error)
            }
        }
    }

    /// Lets clients in.
    fn open(
        config: SessionConfig,
        ground: Ground,
        front: Front,
        up: Up,
    ) -> Result<Self, LaunchError> {
        let Ground { id, workspace, folder, tmp, .. } = ground;
        let Up { fleet, door, containers, places } = up;
        let token = Token::from_random(aifo_process::random_bits()?);
        let mut running = fleet.running();
        let up_now = in_order(fleet.offered(), &running.borrow_and_update());
        let call_counter = Arc::new(CallCounter::default());
        let (log, call_log) =
            call_log::open(&id, folder.path(), config.call_logs, Arc::clone(&call_counter))?;
        let info = SessionInfo {
            id,
            pid: std::process::id(),
            workspace,
            url: front.listener.endpoint().to_string(),
            forwarded: config.forwarding.additions_text(),
            kinds: fleet.offered().to_vec(),
            up: up_now,
            backend: config.backend.name().to_owned(),
            agent: config.agent.as_ref().map(|agent| agent.spec.name.clone()),
            started: SystemTime::now(),
            log,
            folder: folder.path().to_owned(),
            tmp: tmp.path().to_owned(),
            socket_folder: front.folder.as_ref().map(|folder| folder.path().to_owned()),
        };
        info.publish(&token)?;
        let mut card = JoinSet::new();
        card.spawn(keep_card(info.clone(), running));
        let probe = check::probe(&config.policy, fleet.offered(), config.startup);
        let notify_tools = config.notify.allowlist.clone();
        let proxy = Proxy::new(
            ProxyConfig {
                token: token.clone(),
                policy: config.policy,
                forwarding: config.forwarding,
                notify: config.notify,
                call_log,
                running_table: RunningTable::create(&folder.path().join(RUNNING_TABLE))?,
                limits: config.limits,
                max_runtime: config.max_runtime,
                transcript: match config.verbosity {
                    Verbosity::Quiet => Transcript::Plain,
                    Verbosity::Verbose => Transcript::OnOwnLines,
                },
                spool_dir: tmp.path().to_owned(),
                shared_directories: places,
                program: None,
            },
            Arc::clone(&fleet),
        );
        Ok(Session {
            info,
            _card: card,
            folder,
            tmp,
            local_python: config.local_python,
            notify_tools,
            token,
            verbosity: config.verbosity,
            fleet,
            containers,
            door,
            call_counter,
            probe,
            shim: config.shim.clone(),
            host_watch: OnceLock::new(),
            serving: Serving::start(proxy, front.listener),
            _socket_folder: front.folder,
        })
    }
}

/// What a session stands on, before anything of it runs.
struct Ground {
    id: String,
    workspace: PathBuf,
    folder: Folder,
    tmp: Folder,
    /// The real path of the temporary directory.
    shared_tmp: PathBuf,
    caches: Caches,
}

impl Ground {
    /// Checks what can be checked, and makes folders and shims.
    fn lay(config: &SessionConfig) -> Result<Self, LaunchError> {
        let workspace = CheckedWorkspace::new(&config.workspace)?.path().to_owned();
        if let SidecarBackend::Local = config.backend {
            what_is_installed_will_do(&config.toolchains)?;
        }
        if let Some(agent) = &config.agent {
            check_agent_place(config)?;
            place::check_state(agent)?;
        }
        let id = new_id()?;
        let folder = session_folder(&runtime_directory(), &id)?;
        let temporary = match config.backend {
            SidecarBackend::Local => std::env::temp_dir(),
            SidecarBackend::Containers(_) => temporary_directory(),
        };
        let tmp = session_folder(&temporary, &format!("{id}{TMP_SUFFIX}"))?;
        let shims = folder.path().join("shims");
        make_folder(&shims)?;
        link_tools(&shims, config.shim.path(), &config.policy, &config.notify)?;
        let shared_tmp = tmp.path().canonicalize()?;
        if config.call_logs == CallLogs::Kept {
            record_session(&workspace);
        }
        let caches = config.caches.caches(&workspace);
        Ok(Ground { id, workspace, folder, tmp, shared_tmp, caches })
    }
}

/// Where clients connect.
struct Front {
    listener: Listener,
    /// The folder of the socket, if it had to be made for it.
    folder: Option<Folder>,
}

impl Front {
    fn open(listen: Option<Endpoint>, session: &Path) -> Result<Self, LaunchError> {
        let mut folder = None;
        let endpoint = match listen {
            None => {
                let front = place::front(session);
                make_folder(&front)?;
                Endpoint::Unix(front.join("exec.sock"))
            }
            Some(Endpoint::Unix(path)) => {
                folder = missing_parent(&path)?;
                Endpoint::Unix(path)
            }
            Some(tcp) => tcp,
        };
        Ok(Front { listener: Listener::bind(&endpoint, getuid())?, folder })
    }
}

/// What brings up runners.
struct Backends {
    chosen: Chosen,
    /// For what runs on this machine whatever the others do.
    host: LocalBackend,
    /// Every name of the workspace, and of the temporary directory.
    shared: [Vec<PathBuf>; 2],
}

impl Backends {
    async fn choose(config: &SessionConfig, ground: &Ground) -> Result<Self, LaunchError> {
        let Ground { id, workspace, shared_tmp, .. } = ground;
        let local = LocalBackend {
            runner_program: config.shim.program(),
            workspace: workspace.clone(),
            tmp: Some(shared_tmp.clone()),
            path: path_without_shims(std::env::var_os("PATH")),
            open_files: raise_open_files()?,
            confinement: config.confinement.local()?,
            transport: config.runner_transport.local(),
            caches: ground.caches.clone(),
        };
        let host = LocalBackend {
            confinement: LocalConfinement::Unconfined,
            transport: Transport::Descriptors,
            ..local.clone()
        };
        let (mut workspaces, mut temporaries) = (vec![workspace.clone()], vec![shared_tmp.clone()]);
        let chosen = match &config.backend {
            SidecarBackend::Local => Chosen { backend: Box::new(local), containers: None },
            SidecarBackend::Containers(containers) => {
                workspaces.push(CONTAINER_WORKSPACE.into());
                temporaries.push(CONTAINER_TMP.into());
                let runner = (config.shim.path(), config.runner_transport);
                let folder = ground.folder.path();
                let mut agent = None;
                if let Some(asked) = &config.agent {
                    let tools = (&config.policy, &config.notify);
                    let programs = TrustedPrograms::for_workspace(workspace);
                    let as_root = containers.runs_as_root();
                    place::furnish(asked, folder, tools, &programs, as_root).await?;
                    agent = Some(place::container(asked, folder));
                }
                let workspace = (workspace.as_path(), ground.caches.clone());
                let backend = backend::container_backend(
                    containers, id, folder, runner, workspace, shared_tmp, agent,
                )?;
                Chosen { backend: Box::new(backend.clone()), containers: Some(backend) }
            }
        };
        Ok(Backends { chosen, host, shared: [workspaces, temporaries] })
    }
}

/// What is up once a session is.
struct Up {
    fleet: Arc<Fleet>,
    door: Option<Door>,
    containers: Option<ContainerBackend>,
    places: SharedDirectories,
}

/// Brings up the sidecars, and beside them the agent's container if there is to be one.
async fn bring_up(
    config: &SessionConfig,
    ground: &Ground,
    backends: Backends,
) -> Result<(Fleet, Option<Door>), LaunchError> {
    let Backends { chosen, host, shared } = backends;
    let (folder, workspace) = (ground.folder.path(), &ground.workspace);
    let door = async {
        let (Some(_), Some(containers)) = (&config.agent, &chosen.containers) else {
            return Ok(None);
        };
        let door = DoorConfig {
            folder: folder.to_owned(),
            tmp: ground.tmp.path().to_owned(),
            forwarding: config.agent_forwarding.clone(),
            places: SharedDirectories::new(workspace.clone(), shared)?,
            reporter: config.reporter.clone(),
        };
        Door::open(door, Box::new(containers.clone()), Box::new(host.clone())).await.map(Some)
    };
    let (runner, others) = (config.shim.path(), chosen.backend);
    let backend = match &config.attached {
        Some(attached) => attached.over(others, &ground.id, folder, runner, workspace),
        None => others,
    };
    let kinds: Vec<Kind> =
        config.toolchains.iter().map(|toolchain| toolchain.kind.clone()).collect();
    let fleet = async {
        let (startup, reporter) = (config.startup, config.reporter.clone());
        let fleet = Fleet::start(backend, Box::new(host.clone()), kinds, startup, reporter).await;
        fleet.map_err(LaunchError::from)
    };
    tokio::try_join!(fleet, door)
}

/// Errors: nothing in a container would reach the proxy, or there are no containers.
fn check_agent_place(config: &SessionConfig) -> Result<(), LaunchError> {
    let SidecarBackend::Containers(containers) = &config.backend else {
        return Err(LaunchError::AgentPlace(
            "tools run as processes of this machine\n\
             hint: choose an engine with --backend docker or podman, or run the agent on this machine \
             with --backend local",
        ));
    };
    if config.listen.is_some() {
        return Err(LaunchError::AgentPlace(
            "it reaches the proxy by the session's own socket, and another place to listen was \
             named\nhint: leave out --listen and AIFO_TOOLEEXEC_USE_UNIX",
        ));
    }
    if !containers.engine.facts().shares_host_kernel() {
        return Err(LaunchError::AgentPlace(
            "the engine runs on another kernel, which no unix socket reaches\n\
             hint: run aifo-coder where the engine is, or the agent on this machine: run -- AGENT",
        ));
    }
    Ok(())
}

/// Errors: the user wants a version, and there is but one.
fn what_is_installed_will_do(toolchains: &[Toolchain]) -> Result<(), LaunchError> {
    let wanted = toolchains.iter().find_map(|Toolchain { kind, version }| {
        let version = version.as_ref().filter(|one| *one.source() == VersionSource::User)?;
        Some(LaunchError::Version { kind: kind.clone(), version: version.clone() })
    });
    wanted.map_or(Ok(()), Err)
}

/// Eight random bytes in hex: nobody can guess them or have taken them.
fn new_id() -> io::Result<String> {
    let bits = aifo_process::random_bits()?;
    Ok(bits.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

fn session_folder(parent: &Path, id: &str) -> Result<Folder, LaunchError> {
    let path = parent.join(format!("{PREFIX}{id}"));
    Folder::create(path.clone()).map_err(|source| LaunchError::Folder { path, source })
}

fn make_folder(path: &Path) -> Result<(), LaunchError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|source| LaunchError::Folder { path: path.to_owned(), source })
}

/// Makes the folder a socket is to lie in, if it does not exist; it is ours alone then.
fn missing_parent(socket: &Path) -> Result<Option<Folder>, LaunchError> {
    let Some(parent) = socket.parent().filter(|parent| !parent.exists()) else { return Ok(None) };
    let path = parent.to_owned();
    Folder::create(path.clone()).map(Some).map_err(|source| LaunchError::Folder { path, source })
}
