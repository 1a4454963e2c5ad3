//! Starts a session: directories, shims, sidecars, proxy.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use aifo_agents::{
    AgentEndpoint, AgentEndpointConfig, INTERPRETERS_LABEL, OpenState, agent_container,
    covered_interpreters, path_without_shims, trusted_programs, warn_of_foreign_environments,
};
use aifo_host::{
    CallCounter, RUNNING_TABLE, SessionInfo, call_log, in_order,
    log_file::{LogFile, connections_path},
    update_record,
};
use aifo_network::{self, CallerFinder, NamedNetwork, NetworkError, Publications, added_rules};
use aifo_process::raise_open_files;
use aifo_proxy::{Proxy, ProxyConfig, ProxyTask, RunningTable, SharedDirectories, Transcript};
use aifo_sidecar::{
    Backend, CONTAINER_TMP, CONTAINER_WORKSPACE, ContainerBackend, Fleet, LocalBackend,
    LocalConfinement, LocalNetwork, PodBackend, StackServer, Transport,
};
use aifo_types::Token;
use tokio::task::JoinSet;

use crate::backend::{self, Containers, SelectedBackend, SidecarBackend};
use crate::config::{SessionConfig, Verbosity};
use crate::error::LaunchError;
use crate::front_socket::FrontSocket;
use crate::session::{Session, clean};
use crate::session_dirs::SessionDirs;
use crate::{check, questions};

impl Session {
    /// Creates directories and shims, then starts sidecars and proxy. Must be called on a tokio
    /// runtime with IO and time; the session is served as long as that runs.
    pub async fn start(config: SessionConfig) -> Result<Self, LaunchError> {
        match Session::start_or_cancel(config, pending::<Infallible>()).await? {
            Ok(session) => Ok(session),
            Err(never) => match never {},
        }
    }

    /// Like [`Session::start`], unless `cancelled` completes first: then everything started so far
    /// is removed, and `Err` returns its output. Dropping the future instead may leave containers.
    pub async fn start_or_cancel<T>(
        mut config: SessionConfig,
        cancelled: impl Future<Output = T>,
    ) -> Result<Result<Self, T>, LaunchError> {
        config.keep_installed_in_place();
        let dirs = SessionDirs::create(&config)?;
        // Listen before the sidecars start, so that a socket in use fails at once.
        let frontend_dir = dirs.frontend(&config.backend);
        let frontend = FrontSocket::open(config.listen.take(), &frontend_dir)?;
        let backends = Backends::choose(&config, &dirs).await?;
        let shared_directories =
            SharedDirectories::new(dirs.workspace.clone(), backends.shared.clone())?;
        let (containers, network) = (backends.chosen.containers.clone(), backends.network.clone());
        let publications = backends.publications.clone();
        // If one part fails while the other still starts, both are removed.
        let started = tokio::select! {
            started = start_sidecars(&config, &dirs, backends) => started,
            cause = cancelled => {
                clean(containers.as_ref()).await;
                return Ok(Err(cause));
            }
        };
        match started {
            Ok((fleet, agent_endpoint)) => {
                let running = Running {
                    fleet: Arc::new(fleet),
                    agent_endpoint,
                    containers,
                    network,
                    publications,
                    shared_directories,
                };
                Session::open(config, dirs, frontend, running).map(Ok)
            }
            Err(error) => {
                clean(containers.as_ref()).await;
                Err(error)
            }
        }
    }

    /// Starts the proxy.
    fn open(
        config: SessionConfig,
        dirs: SessionDirs,
        frontend: FrontSocket,
        running: Running,
    ) -> Result<Self, LaunchError> {
        let frontend_dir = dirs.frontend(&config.backend);
        let SessionDirs { id, workspace, directory, tmp, project_files, state, .. } = dirs;
        // Before the first call.
        let project_files = project_files.join().unwrap_or_else(|panic| resume_unwind(panic));
        let Running {
            fleet,
            agent_endpoint,
            containers,
            network,
            publications,
            shared_directories,
        } = running;
        let token = Token::from_random(aifo_process::random_bits()?);
        let mut running_kinds = fleet.running();
        let (call_counter, limits) = (Arc::new(CallCounter::default()), &config.limits);
        let counter = Arc::clone(&call_counter);
        let log = call_log::open(&id, directory.path(), config.call_logs, limits, counter)?;
        let running_table = RunningTable::create(&directory.path().join(RUNNING_TABLE))?;
        if let Some(network) = &network {
            let file = LogFile::create(&connections_path(&log.path), limits.max_log)?;
            let outside = config.attached.iter().flat_map(|attached| attached.containers.keys());
            let outside = outside.cloned().collect();
            let stacks = network.tool_stacks().clone();
            let finder = CallerFinder::new(&fleet, running_table.clone(), stacks, outside);
            network.open_log(file, finder);
        }
        let info = SessionInfo {
            id,
            pid: std::process::id(),
            workspace,
            url: frontend.listener.endpoint().to_string(),
            forwarded: config.forwarding.additions_text(),
            kinds: fleet.offered().to_vec(),
            up: in_order(fleet.offered(), &running_kinds.borrow_and_update()),
            backend: config.backend.name().to_owned(),
            agent: config.agent.as_ref().map(|agent| agent.spec.name.clone()),
            name_ports: network.as_ref().map(|network| network.name_ports().to_vec()),
            tool_stacks: network.as_ref().map_or_else(Vec::new, |network| {
                network.tool_stacks().iter().map(|stack| stack.kinds.clone()).collect()
            }),
            started: SystemTime::now(),
            log: log.path,
            directory: directory.path().to_owned(),
            tmp: tmp.path().to_owned(),
            socket_directory: frontend.directory.as_ref().map(|parent| parent.path().to_owned()),
        };
        info.publish(&token)?;
        let mut record = JoinSet::new();
        record.spawn(update_record(info.clone(), running_kinds));
        // Local tools have the session directory's user.
        let is_local = matches!(config.backend, SidecarBackend::Local);
        if let Some(network) = network.as_ref().filter(|_| !is_local) {
            record.spawn(added_rules::apply(info.directory.clone(), network.clone()));
        }
        if let Some(publications) = &publications {
            record
                .spawn(aifo_network::publications::serve_requests(&info.directory, publications)?);
        }
        let names = shared_directories.names();
        let approvals = questions::open(&config, names, (&info, &token), &mut record)?;
        let probe = check::probe(&config.policy, fleet.offered(), config.startup);
        let notify_tools = config.notify.allowlist.clone();
        let proxy = Proxy::new(
            ProxyConfig {
                token: token.clone(),
                policy: config.policy,
                approvals: approvals.clone(),
                in_place: config.in_place,
                forwarding: config.forwarding,
                notify: config.notify,
                call_log: log.calls,
                running_table,
                limits: config.limits,
                max_runtime: config.max_runtime,
                transcript: match config.verbosity {
                    Verbosity::Quiet => Transcript::Plain,
                    Verbosity::Verbose => Transcript::OnOwnLines,
                },
                spool_dir: tmp.path().to_owned(),
                shared_directories,
                program: None,
            },
            Arc::clone(&fleet),
        );
        Ok(Session {
            info,
            _record_updates: record,
            directory,
            tmp,
            local_python: config.local_python,
            notify_tools,
            token,
            verbosity: config.verbosity,
            fleet,
            containers,
            network,
            publications,
            agent_endpoint,
            state,
            approvals,
            call_counter,
            messages: log.messages,
            frontend_dir,
            project_files,
            probe,
            shim: config.shim.clone(),
            host_watch: OnceLock::new(),
            proxy_task: ProxyTask::start(proxy, frontend.listener),
            _socket_directory: frontend.directory,
        })
    }
}

/// Backends that start runners.
struct Backends {
    chosen: SelectedBackend,
    /// Starts runners of the kind `host` on this machine.
    host: LocalBackend,
    /// The gateway of a network by name.
    network: Option<NamedNetwork>,
    /// Its ports that this machine serves.
    publications: Option<Arc<Publications>>,
    /// All paths of the workspace, and of the temporary directory.
    shared: [Vec<PathBuf>; 2],
}

impl Backends {
    async fn choose(config: &SessionConfig, dirs: &SessionDirs) -> Result<Self, LaunchError> {
        let SessionDirs { id, workspace, shared_tmp, .. } = dirs;
        let mut network = match (&config.backend, &config.local_names) {
            (SidecarBackend::Local, Some(names)) => {
                Some(names.named_network(&config.kinds(), &config.shim.program())?)
            }
            _ => None,
        };
        let local = LocalBackend {
            runner_program: config.shim.program(),
            workspace: workspace.clone(),
            tmp: Some(shared_tmp.clone()),
            path: path_without_shims(std::env::var_os("PATH")),
            open_files: raise_open_files()?,
            confinement: match config.backend {
                SidecarBackend::Local => {
                    config.confinement.local(&config.shim.program(), workspace)?
                }
                SidecarBackend::Containers(_) | SidecarBackend::Pod(_) => {
                    LocalConfinement::Unconfined
                }
            },
            restrictions: config.restrictions.clone(),
            transport: config.runner_transport.local(),
            caches: dirs.caches.clone(),
            network: network
                .as_ref()
                .map(|network| LocalNetwork::new(Arc::new(network.clone()), dirs.directory.path())),
        };
        // Its commands are the user's: an agent writes to the workspace, and may to entries of PATH.
        let programs = trusted_programs(workspace).with_path(local.path.clone());
        let host = LocalBackend {
            workspace: "/".into(),
            path: programs.path(),
            confinement: LocalConfinement::Unconfined,
            network: None,
            transport: Transport::Descriptors,
            ..local.clone()
        };
        let (mut workspaces, mut temporaries) = (vec![workspace.clone()], vec![shared_tmp.clone()]);
        let mut publications = None;
        let chosen = match &config.backend {
            SidecarBackend::Local => {
                SelectedBackend { backend: Box::new(local), containers: None, agent: None }
            }
            SidecarBackend::Pod(pod) => {
                temporaries.push(CONTAINER_TMP.into());
                let backend = PodBackend::new(pod.sockets());
                let agent = Some(Box::new(backend.clone()) as Box<dyn Backend>);
                SelectedBackend { backend: Box::new(backend), containers: None, agent }
            }
            SidecarBackend::Containers(containers) => {
                workspaces.push(CONTAINER_WORKSPACE.into());
                temporaries.push(CONTAINER_TMP.into());
                let runner = config.runner();
                network = containers.named_network(&config.kinds())?;
                containers.check_join().await?;
                if let Some(network) = &network {
                    publications = Some(Arc::new(publish(network, containers)?));
                }
                containers.warn_of_removed_logins();
                let linked = containers.linked(workspace).unwrap_or_else(|reason| {
                    tracing::warn!("git does not work in this workspace in containers: {reason}");
                    None
                });
                let searched = (containers.clone(), workspace.clone(), linked.clone());
                let sockets = tokio::task::spawn_blocking(move || {
                    let (containers, workspace, linked) = searched;
                    containers.covered_sockets(&workspace, linked.as_ref())
                });
                let directory = dirs.directory.path();
                let (mut agent, mut private) = (None, Vec::new());
                if let Some(asked) = &config.agent {
                    let tools = config.shim_tools();
                    let programs = trusted_programs(workspace);
                    let as_root = containers.runs_as_root();
                    let (label, configured) = tokio::join!(
                        containers.engine.image_label(&asked.image, INTERPRETERS_LABEL),
                        agent_container::configure(asked, directory, tools, &programs, as_root),
                    );
                    configured?;
                    let interpreters = covered_interpreters(label.as_deref());
                    if !interpreters.is_empty() {
                        warn_of_foreign_environments(workspace);
                    }
                    let own_home = dirs.state.as_ref().map(OpenState::home);
                    let own_home = own_home.as_deref();
                    let container = agent_container::container(
                        asked,
                        own_home,
                        interpreters,
                        directory,
                        containers.uid(),
                    );
                    private.clone_from(&container.private);
                    agent = Some(container);
                }
                backend::prepare_mounts(workspace, linked.as_ref(), shared_tmp, &private)?;
                let sockets = sockets.await.map_err(|error| LaunchError::System(error.into()))?;
                let mounted = (workspace.as_path(), linked, sockets, dirs.caches.clone());
                let stacks =
                    network.clone().map(|network| Arc::new(network) as Arc<dyn StackServer>);
                let options = (agent, stacks);
                let backend =
                    containers.backend(id, directory, runner, mounted, shared_tmp, options);
                SelectedBackend {
                    backend: Box::new(backend.clone()),
                    agent: Some(Box::new(backend.clone())),
                    containers: Some(backend),
                }
            }
        };
        Ok(Backends { chosen, host, network, publications, shared: [workspaces, temporaries] })
    }
}

/// Publishes the ports of the configuration. Errors: an address of this machine is in use, or a port is
/// not valid.
fn publish(network: &NamedNetwork, containers: &Containers) -> Result<Publications, LaunchError> {
    let publications = network.publications();
    for port in containers.published()? {
        publications.add(port).map_err(NetworkError)?;
    }
    Ok(publications)
}

/// Running parts of a session.
struct Running {
    fleet: Arc<Fleet>,
    agent_endpoint: Option<AgentEndpoint>,
    containers: Option<ContainerBackend>,
    network: Option<NamedNetwork>,
    publications: Option<Arc<Publications>>,
    shared_directories: SharedDirectories,
}

/// Starts the sidecars and, at the same time, the agent's container.
async fn start_sidecars(
    config: &SessionConfig,
    dirs: &SessionDirs,
    backends: Backends,
) -> Result<(Fleet, Option<AgentEndpoint>), LaunchError> {
    let Backends { chosen, host, shared, .. } = backends;
    let (directory, workspace) = (dirs.directory.path(), &dirs.workspace);
    let agent_endpoint = async {
        let (Some(agent), Some(backend)) = (&config.agent, chosen.agent) else {
            return Ok(None);
        };
        let agent_endpoint = AgentEndpointConfig {
            session_dir: directory.to_owned(),
            tmp: dirs.tmp.path().to_owned(),
            forwarding: config.agent_forwarding.clone(),
            shared_directories: SharedDirectories::new(workspace.clone(), shared)?,
            keys: agent.keys.clone(),
            reporter: config.reporter.clone(),
        };
        let opened = AgentEndpoint::open(agent_endpoint, backend, Box::new(host.clone())).await;
        opened.map(Some).map_err(LaunchError::from)
    };
    let (runner, others) = (config.shim.path(), chosen.backend);
    let backend = match &config.attached {
        Some(attached) => attached.over(others, &dirs.id, directory, runner, workspace),
        None => others,
    };
    let kinds = config.kinds();
    let (startup, reporter) = (config.startup, config.reporter.clone());
    let fleet = Fleet::start(backend, Box::new(host.clone()), kinds, startup, reporter);
    tokio::try_join!(async { fleet.await.map_err(LaunchError::from) }, agent_endpoint)
}
