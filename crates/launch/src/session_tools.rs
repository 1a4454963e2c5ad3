//! A session's sidecars with their network: start and end.

use std::path::PathBuf;
use std::sync::Arc;

use aifo_agents::{
    AgentContainerConfig, AgentEndpoint, AgentEndpointConfig, INTERPRETERS_LABEL, OpenState,
    agent_container, covered_interpreters, path_without_shims, trusted_programs,
    warn_of_foreign_environments,
};
use aifo_engine::Engine;
use aifo_engine::images::PACKAGES_LABEL;
use aifo_network::{NamedNetwork, NetworkError, Publications};
use aifo_process::raise_open_files;
use aifo_proxy::SharedDirectories;
use aifo_sidecar::{
    Backend, CONTAINER_TMP, CONTAINER_WORKSPACE, ContainerBackend, Fleet, LocalBackend,
    LocalConfinement, LocalNetwork, PodBackend, StackServer, Transport,
};

use crate::backend::{self, Containers, SelectedBackend, SidecarBackend};
use crate::config::SessionConfig;
use crate::error::LaunchError;
use crate::session_dirs::SessionDirs;

/// Sidecars, and their network.
#[derive(Debug)]
pub(crate) struct SessionTools {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) containers: Option<ContainerBackend>,
    /// The gateway of a network by name.
    pub(crate) network: Option<NamedNetwork>,
    /// The ports of the tools that this machine serves.
    pub(crate) publications: Option<Arc<Publications>>,
}

impl SessionTools {
    /// Ends the sidecars, and removes their containers and networks. Their clients have ended before.
    pub(crate) async fn stop(&self) {
        if let Some(containers) = &self.containers {
            // A sidecar may be starting on demand.
            containers.cancel_starts();
        }
        self.fleet.stop().await;
        clean(self.containers.as_ref()).await;
    }

    /// Reports what the network refused.
    pub(crate) fn report(&self) {
        for line in self.network.iter().flat_map(NamedNetwork::report) {
            tracing::warn!("{line}");
        }
    }
}

/// Removes containers and networks.
pub(crate) async fn clean(containers: Option<&ContainerBackend>) {
    let Some(containers) = containers else { return };
    if let Err(error) = containers.clean().await {
        tracing::error!("{error}; `aifo-coder clean` removes what is left");
    }
}

/// Backends that start runners.
pub(crate) struct Backends {
    chosen: SelectedBackend,
    /// Starts runners of the kind `host` on this machine.
    host: LocalBackend,
    /// The gateway of a network by name.
    network: Option<NamedNetwork>,
    /// Its ports that this machine serves.
    publications: Option<Arc<Publications>>,
    /// All paths of the workspace, and of the temporary directory.
    pub(crate) shared: [Vec<PathBuf>; 2],
}

impl Backends {
    /// Chooses them, and names its network. Starts nothing.
    pub(crate) async fn choose(
        config: &SessionConfig,
        dirs: &SessionDirs,
    ) -> Result<Self, LaunchError> {
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
                containers.write_settings(directory)?;
                let (mut agent, mut private) = (None, Vec::new());
                if let Some(asked) = &config.agent {
                    let tools = config.shim_tools();
                    let programs = trusted_programs(workspace);
                    let as_root = containers.runs_as_root();
                    let (label, configured, ()) = tokio::join!(
                        containers.engine.image_label(&asked.image, INTERPRETERS_LABEL),
                        agent_container::configure(asked, directory, tools, &programs, as_root),
                        warn_of_missing_packages(&containers.engine, asked),
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

impl Backends {
    /// Returns what a start may leave behind: its containers.
    pub(crate) fn containers(&self) -> Option<ContainerBackend> {
        self.chosen.containers.clone()
    }

    /// Starts the sidecars and, at the same time, the agent container.
    pub(crate) async fn start(
        self,
        config: &SessionConfig,
        dirs: &SessionDirs,
    ) -> Result<(SessionTools, Option<AgentEndpoint>), LaunchError> {
        let (containers, network) = (self.containers(), self.network.clone());
        let publications = self.publications.clone();
        let (fleet, agent_endpoint) = start_sidecars(config, dirs, self).await?;
        let fleet = Arc::new(fleet);
        Ok((SessionTools { fleet, containers, network, publications }, agent_endpoint))
    }
}

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
            forges: agent.forges.clone(),
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
    let (startup, reporter) = (config.startup.clone(), config.reporter.clone());
    let fleet = Fleet::start(backend, Box::new(host.clone()), kinds, startup, reporter);
    tokio::try_join!(async { fleet.await.map_err(LaunchError::from) }, agent_endpoint)
}

/// Warns if the image of an agent was built before its configuration has asked for further packages.
async fn warn_of_missing_packages(engine: &Engine, asked: &AgentContainerConfig) {
    let wanted = asked.spec.packages.join(" ");
    if wanted.is_empty() {
        return;
    }
    let built = engine.image_label(&asked.image, PACKAGES_LABEL).await.unwrap_or_default();
    if built != wanted {
        let name = &asked.spec.name;
        tracing::warn!(
            "the image of {name} does not have the 'packages' of its configuration; build it again: aifo-coder \
             images build {name}"
        );
    }
}
