//! Backends of a session's sidecars.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_agents::ToolSettings;
use aifo_engine::{Engine, Flavor, Labels};
use aifo_host::{
    DirectoryError, PodSession, Toolchain, is_system_directory, linked_repository, listening_below,
};
use aifo_network::{
    NamedNetwork, NetworkError, NetworkRules, StackPorts, engine_value, open_network,
};
use aifo_process::{ResourceLimit, Restriction, current_limits};
use aifo_sidecar::{
    Admitted, AgentContainer, Backend, Caches, ContainerBackend, ContainerConfig, Images,
    LinkedRepository, Net, StackServer, Transport, proxy_logins,
};
use aifo_types::{Kind, Subnet};

use crate::confine::{ConfinementMode, NetworkAccess};
use crate::error::LaunchError;

/// Where sidecars run.
#[derive(Clone, Debug, Default)]
pub enum SidecarBackend {
    /// In child processes of this machine.
    #[default]
    Local,
    /// In containers.
    Containers(Box<Containers>),
    /// In containers of the launcher's pod, which Kubernetes starts.
    Pod(PodSession),
}

/// How runners are connected (`spec/runner.md#stream-transport`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunnerTransport {
    /// Descriptors if the runner shares the host's kernel, else stdin and stdout.
    #[default]
    Auto,
    /// A unix socket that passes descriptors.
    Socket,
    /// The runner's stdin and stdout; all streams travel in frames.
    Stdio,
}

impl RunnerTransport {
    /// Selects the transport for containers of an engine.
    fn containers(self, engine: &Engine) -> Transport {
        match self {
            RunnerTransport::Auto if engine.facts().shares_host_kernel() => Transport::Descriptors,
            RunnerTransport::Auto | RunnerTransport::Stdio => Transport::Stream,
            RunnerTransport::Socket => Transport::Descriptors,
        }
    }

    /// Selects the transport for local processes.
    pub(crate) fn local(self) -> Transport {
        match self {
            RunnerTransport::Auto | RunnerTransport::Socket => Transport::Descriptors,
            RunnerTransport::Stdio => Transport::Stream,
        }
    }
}

impl SidecarBackend {
    /// Returns `local`, or the engine name.
    pub fn name(&self) -> &'static str {
        match self {
            SidecarBackend::Local => "local",
            SidecarBackend::Containers(containers) => containers.engine.flavor().program(),
            SidecarBackend::Pod(_) => "pod",
        }
    }

    /// Describes in one line what confines tools and what does not.
    pub fn summary(&self, confinement: ConfinementMode, local: NetworkAccess) -> String {
        match self {
            SidecarBackend::Local => confinement.summary(local),
            SidecarBackend::Containers(containers) => format!(
                "tools run in containers of {} {}: of this machine's files they see the workspace, \
                 the session's temporary directory and caches",
                containers.engine.flavor(),
                containers.engine.facts().version
            ),
            SidecarBackend::Pod(_) => {
                "tools run in containers of this pod: they see the workspace, the session's temporary \
                 directory and the pod's network"
                    .to_owned()
            }
        }
    }
}

/// A kind, and its image that an engine does not have.
pub type MissingImage = (Kind, String);

/// Settings of a session's containers.
#[derive(Clone, Debug)]
pub struct Containers {
    /// The engine that runs them.
    pub engine: Engine,
    /// The image of each kind.
    pub images: Images,
    /// Their network.
    pub net: Net,
    /// The names that they reach with [`Net::Names`].
    pub rules: NetworkRules,
    /// The ports of this machine's localhost that they reach at their own with [`Net::Names`], each once.
    pub host_ports: Vec<u16>,
    /// The ports of the agent's localhost that tools reach at their own with [`Net::Names`], each once.
    pub agent_ports: Vec<u16>,
    /// The engine's network that tools have with [`Net::Names`], instead of the named one.
    pub join: Option<String>,
    /// Sockets of this machine's programs that agent and tools may use: paths in the workspace.
    pub sockets: Vec<PathBuf>,
    /// Published ports, as for the engine's `--publish`; without an address at 127.0.0.1.
    pub publish: Vec<String>,
    /// Address pools of podman's networks, if its configuration sets them.
    pub pools: Option<Vec<Subnet>>,
    /// Limits of each container.
    pub limits: aifo_engine::ContainerLimits,
    /// Files and sockets of the user that they may access.
    pub admitted: Vec<Admitted>,
    /// What tools get of the user's settings of package managers.
    pub settings: Vec<ToolSettings>,
    /// The variables and directories of this machine's certificates that they lack; calls that fail then
    /// end with a hint.
    pub missing_certificates: Vec<&'static str>,
}

impl Containers {
    /// Returns the defaults: three quarters of the machine's memory and 4096 processes for each
    /// container.
    pub fn of(engine: Engine) -> Self {
        let memory = engine.facts().memory / 4 * 3;
        let ulimits = process_limits(engine.flavor(), &current_limits());
        Containers {
            engine,
            images: Images::default(),
            net: Net::default(),
            rules: NetworkRules::default(),
            host_ports: Vec::new(),
            agent_ports: Vec::new(),
            join: None,
            sockets: Vec::new(),
            publish: Vec::new(),
            pools: None,
            limits: aifo_engine::ContainerLimits {
                memory: Some(memory).filter(|memory| *memory > 0),
                pids: Some(DEFAULT_PIDS),
                cpus: None,
                ulimits,
            },
            admitted: Vec::new(),
            settings: Vec::new(),
            missing_certificates: Vec::new(),
        }
    }

    /// Uses the images of the versions that these toolchains request.
    pub fn request_versions(&mut self, toolchains: &[Toolchain]) {
        let requested = toolchains.iter().filter_map(|toolchain| {
            Some((toolchain.kind.clone(), toolchain.version.as_ref()?.to_string()))
        });
        self.images.versions.extend(requested);
    }

    /// Returns those images of the kinds that the engine does not have.
    pub async fn missing_images(&self, kinds: &[Kind]) -> Vec<MissingImage> {
        // An engine's command takes tens of milliseconds.
        let checks = kinds.iter().map(|kind| {
            let (engine, kind, image) = (self.engine.clone(), kind.clone(), self.images.of(kind));
            tokio::spawn(async move { (!engine.has_image(&image).await).then_some((kind, image)) })
        });
        let mut missing = Vec::new();
        for check in checks.collect::<Vec<_>>() {
            // The task only waits, and does not panic.
            missing.extend(check.await.ok().flatten());
        }
        missing
    }

    /// Returns the engine name, after the reason why a preferred engine was not taken, if any:
    /// `docker does not answer: REASON; podman`.
    pub fn engine_text(&self) -> String {
        let flavor = self.engine.flavor();
        match self.engine.passed_over().and_then(|reason| reason.lines().next()) {
            Some(reason) => format!("{reason}; {flavor}"),
            None => flavor.to_string(),
        }
    }

    /// True if the caller id in containers is root: the caller is root, or a rootless docker maps
    /// it to root.
    pub(crate) fn runs_as_root(&self) -> bool {
        let namespaced = self.engine.facts().rootless && self.engine.flavor() == Flavor::Docker;
        namespaced || nix::unistd::getuid().is_root()
    }

    /// Returns the caller uid in containers.
    pub(crate) fn uid(&self) -> u32 {
        if self.runs_as_root() { 0 } else { nix::unistd::getuid().as_raw() }
    }

    /// True if the container processes are root on this machine too.
    pub fn run_as_host_root(&self) -> bool {
        nix::unistd::getuid().is_root() && !self.engine.facts().rootless
    }

    /// Returns the network of [`Net::Names`], if that is the configured one. Errors: why it cannot work,
    /// with a hint.
    pub(crate) fn named_network(
        &self,
        kinds: &[Kind],
    ) -> Result<Option<NamedNetwork>, NetworkError> {
        if !self.net.is_by_name() {
            return Ok(None);
        }
        let ports = StackPorts {
            host: self.host_ports.clone(),
            agent: self.agent_ports.clone(),
            joined: self.join.is_some(),
            ..StackPorts::default()
        };
        open_network(self.net, &self.rules, kinds, ports).map(Some)
    }

    /// Warns if containers get a proxy URL without the login that it has on the host.
    pub(crate) fn warn_of_removed_logins(&self) {
        if self.net.is_by_name() {
            // They get no proxy.
            return;
        }
        let names = proxy_logins(|name| std::env::var_os(name));
        let is_admitted = |name: &&str| {
            self.admitted.iter().any(|it| it.variables.iter().any(|(of, _)| of == name))
        };
        if let Some(name) = names.into_iter().find(|name| !is_admitted(name)) {
            tracing::warn!(
                "tools get '{name}' without its login; to pass it: admit = [\"proxy-login\"] in \
                 [containers] of the user's file"
            );
        }
    }

    /// Returns the repository outside of a workspace, a real path, that its containers get.
    pub(crate) fn linked(&self, workspace: &Path) -> Result<Option<LinkedRepository>, String> {
        let linked = linked_repository(workspace)?;
        match linked.is_some() && !self.engine.facts().shares_host_kernel() {
            true => Err("the engine runs on another kernel".to_owned()),
            false => Ok(linked),
        }
    }

    /// Finds the sockets in the workspace, and in its linked repository, that containers must not use.
    pub(crate) fn covered_sockets(
        &self,
        workspace: &Path,
        linked: Option<&LinkedRepository>,
    ) -> Vec<PathBuf> {
        let mut found = listening_below(workspace);
        let admitted = |path: &PathBuf| {
            let path = workspace.join(path);
            self.sockets.iter().any(|admitted| workspace.join(admitted) == path)
        };
        found.extend(linked.iter().flat_map(|linked| {
            listening_below(&linked.common).into_iter().map(|path| linked.common.join(path))
        }));
        found.retain(|path| !admitted(path));
        found
    }

    /// Returns the backend of a session.
    pub(crate) fn backend(
        &self,
        session: &str,
        session_dir: &Path,
        runner: RunnerOptions<'_>,
        (workspace, linked, sockets_of_host, caches): Mounted<'_>,
        tmp: &Path,
        (agent, stacks): (Option<AgentContainer>, Option<Arc<dyn StackServer>>),
    ) -> ContainerBackend {
        ContainerBackend::new(ContainerConfig {
            engine: self.engine.clone(),
            labels: Labels::of_session(session, session_dir),
            runner_program: runner.program.to_owned(),
            transport: runner.transport.containers(&self.engine),
            restrictions: runner.restrictions.to_vec(),
            sockets: session_dir.join("back"),
            workspace: workspace.to_owned(),
            linked,
            sockets_of_host,
            tmp: tmp.to_owned(),
            images: self.images.clone(),
            net: self.net,
            stacks,
            join: self.join.clone(),
            publish: match self.net.is_by_name() {
                // The launcher serves them.
                true => Vec::new(),
                false => self.publish.iter().map(|value| engine_value(value)).collect(),
            },
            pools: self.pools.clone(),
            limits: self.limits.clone(),
            caches,
            admitted: self.admitted.iter().cloned().chain(self.passed(session_dir)).collect(),
            lacks_certificates: !self.missing_certificates.is_empty(),
            agent,
        })
    }
}

/// The workspace, its linked repository, the covered sockets in them, and the caches.
pub(crate) type Mounted<'a> = (&'a Path, Option<LinkedRepository>, Vec<PathBuf>, Caches);

/// Returns limits of each process in a container, by the engine names: no core dumps, which the host
/// would store, and half of the open files and pending signals that this machine allows, so that one
/// session does not use them up.
fn process_limits(flavor: Flavor, of_launcher: &[ResourceLimit]) -> Vec<(&'static str, u64)> {
    // Podman raises nproc, which not every host permits, unless it is given.
    let nproc = (flavor == Flavor::Podman).then_some(("nproc", 6, 1, MAX_PROCESSES));
    let shares = [("nofile", 7, 2, MAX_OPEN_FILES), ("sigpending", 11, 2, MAX_PENDING_SIGNALS)];
    let shares = shares.into_iter().chain(nproc).filter_map(|(name, number, divisor, most)| {
        let limit = of_launcher.iter().find(|limit| limit.resource == number)?;
        Some((name, (limit.hard / divisor).min(most)))
    });
    [("core", 0)].into_iter().chain(shares).collect()
}

/// A program that closes or scans all possible descriptors takes seconds with a larger limit.
const MAX_OPEN_FILES: u64 = 1 << 19;
const MAX_PENDING_SIGNALS: u64 = 1 << 19;
/// Podman's own limit on a machine that permits no more.
const MAX_PROCESSES: u64 = 1 << 15;

/// The runner of all containers.
#[derive(Clone, Copy)]
pub(crate) struct RunnerOptions<'a> {
    /// The `aifo-shim` binary.
    pub(crate) program: &'a Path,
    pub(crate) transport: RunnerTransport,
    pub(crate) restrictions: &'a [Restriction],
}

/// More than a build needs, and few enough to keep the machine usable.
const DEFAULT_PIDS: u32 = 4096;

/// Checks the workspace, and creates the mount points of containers in the temporary directory.
pub(crate) fn prepare_mounts(
    workspace: &Path,
    linked: Option<&LinkedRepository>,
    tmp: &Path,
    private: &[PathBuf],
) -> Result<(), LaunchError> {
    check_workspace(workspace)?;
    private.iter().try_for_each(|path| make_mount_point(tmp, path))?;
    if let Some(linked) = linked {
        make_mount_point(tmp, &linked.common)?;
    }
    make_mount_point(tmp, workspace)?;
    make_mount_point(tmp, tmp)
}

/// Containers mount the workspace at its own path, so that absolute paths stay valid. Errors: the
/// mount would hide system directories of the image.
pub(crate) fn check_workspace(workspace: &Path) -> Result<(), LaunchError> {
    if is_system_directory(workspace) {
        return Err(LaunchError::SystemWorkspace(workspace.to_owned()));
    }
    Ok(())
}

/// Creates the mount point of a path below `/tmp` in the directory that containers mount as `/tmp`;
/// otherwise the engine would create it as root.
fn make_mount_point(tmp: &Path, place: &Path) -> Result<(), LaunchError> {
    let Ok(rest) = place.strip_prefix("/tmp") else { return Ok(()) };
    let path = tmp.join(rest);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    Ok(made.map_err(|source| DirectoryError::new(&path, source))?)
}

/// The selected backend, and the containers to remove at the end.
pub(crate) struct SelectedBackend {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) containers: Option<ContainerBackend>,
    /// Starts the runner of the agent container.
    pub(crate) agent: Option<Box<dyn Backend>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_half_of_the_launchers_limits() {
        let limit = |resource, hard| ResourceLimit { resource, soft: 1024, hard };
        let own = [limit(7, 20_000), limit(6, 90_000), limit(11, u64::MAX)];
        let expected = [("core", 0), ("nofile", 10_000), ("sigpending", 1 << 19)];
        assert_eq!(process_limits(Flavor::Docker, &own), expected);
        assert_eq!(process_limits(Flavor::Podman, &own)[3..], [("nproc", 1 << 15)]);
    }
}
