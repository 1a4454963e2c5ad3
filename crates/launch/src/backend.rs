//! How the sidecars of a session run.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use aifo_engine::{Engine, Flavor, Labels};
use aifo_sidecar::{
    Admitted, AgentContainer, Backend, Caches, ContainerBackend, ContainerConfig, Images, Net,
    Transport,
};
use aifo_types::{Kind, Subnet};

use crate::confine::ConfinementMode;
use crate::error::LaunchError;

/// How sidecars run.
#[derive(Clone, Debug, Default)]
pub enum SidecarBackend {
    /// As child processes of this machine.
    #[default]
    Local,
    /// As containers.
    Containers(Box<Containers>),
}

/// What runners are reached by (`spec/runner.md#stream-transport`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunnerTransport {
    /// What the machine allows for: descriptors, where the runner shares our kernel.
    #[default]
    Auto,
    /// A unix socket, with descriptors.
    Socket,
    /// The runner's stdin and stdout, and everything in frames.
    Stdio,
}

impl RunnerTransport {
    /// For containers of an engine.
    fn containers(self, engine: &Engine) -> Transport {
        match self {
            RunnerTransport::Auto if engine.facts().shares_host_kernel() => Transport::Descriptors,
            RunnerTransport::Auto | RunnerTransport::Stdio => Transport::Stream,
            RunnerTransport::Socket => Transport::Descriptors,
        }
    }

    /// For processes of this machine.
    pub(crate) fn local(self) -> Transport {
        match self {
            RunnerTransport::Auto | RunnerTransport::Socket => Transport::Descriptors,
            RunnerTransport::Stdio => Transport::Stream,
        }
    }
}

impl SidecarBackend {
    /// `local`, or the engine's name.
    pub fn name(&self) -> &'static str {
        match self {
            SidecarBackend::Local => "local",
            SidecarBackend::Containers(containers) => containers.engine.flavor().program(),
        }
    }

    /// What holds tools to their place, and what does not, in one line.
    pub fn summary(&self, confinement: ConfinementMode) -> String {
        match self {
            SidecarBackend::Local => confinement.summary().to_owned(),
            SidecarBackend::Containers(containers) => format!(
                "tools run in containers of {} {}: of this machine's files they see the workspace, \
                 the session's temporary directory and caches",
                containers.engine.flavor(),
                containers.engine.facts().version
            ),
        }
    }
}

/// What the containers of a session are to be.
#[derive(Clone, Debug)]
pub struct Containers {
    /// The engine that runs them.
    pub engine: Engine,
    /// Which image a kind is made from.
    pub images: Images,
    /// What they are connected to.
    pub net: Net,
    /// Ports that the host can be reached at, as the engine's `--publish` has them.
    pub publish: Vec<String>,
    /// What podman takes networks from, where its settings say something of their own.
    pub pools: Option<Vec<Subnet>>,
    /// What each of them may use.
    pub limits: aifo_engine::ContainerLimits,
    /// What else of the user's they get to see.
    pub admitted: Vec<Admitted>,
}

impl Containers {
    /// Containers of an engine's, with nothing but the defaults: three quarters of the machine's
    /// memory and 4096 processes for each.
    pub fn of(engine: Engine) -> Self {
        let memory = engine.facts().memory / 4 * 3;
        Containers {
            engine,
            images: Images::default(),
            net: Net::default(),
            publish: Vec::new(),
            pools: None,
            limits: aifo_engine::ContainerLimits {
                memory: Some(memory).filter(|memory| *memory > 0),
                pids: Some(DEFAULT_PIDS),
                cpus: None,
            },
            admitted: Vec::new(),
        }
    }

    /// Whether the caller is root in containers: it is root here, or the engine's namespace is the
    /// caller's.
    pub(crate) fn runs_as_root(&self) -> bool {
        let namespaced = self.engine.facts().rootless && self.engine.flavor() == Flavor::Docker;
        namespaced || nix::unistd::getuid().is_root()
    }

    /// The backend of a session whose folder and places are these.
    pub(crate) fn backend(
        &self,
        session: &str,
        folder: &Path,
        runner: (&Path, RunnerTransport),
        (workspace, caches): (&Path, Caches),
        tmp: &Path,
        agent: Option<AgentContainer>,
    ) -> ContainerBackend {
        ContainerBackend::new(ContainerConfig {
            engine: self.engine.clone(),
            labels: Labels::of_session(session, folder),
            runner_program: runner.0.to_owned(),
            transport: runner.1.containers(&self.engine),
            sockets: folder.join("back"),
            workspace: workspace.to_owned(),
            tmp: tmp.to_owned(),
            images: self.images.clone(),
            net: self.net,
            publish: self.publish.clone(),
            pools: self.pools.clone(),
            limits: self.limits.clone(),
            caches,
            admitted: self.admitted.clone(),
            agent,
        })
    }
}

/// More than a build needs, and less than takes a machine down.
const DEFAULT_PIDS: u32 = 4096;

/// What brings up the sidecars of a session, and what they are told that is not there yet.
pub(crate) fn container_backend(
    containers: &Containers,
    session: &str,
    folder: &Path,
    runner: (&Path, RunnerTransport),
    (workspace, caches): (&Path, Caches),
    tmp: &Path,
    agent: Option<AgentContainer>,
) -> Result<ContainerBackend, LaunchError> {
    check_workspace(workspace)?;
    make_mount_point(tmp, workspace)?;
    make_mount_point(tmp, tmp)?;
    Ok(containers.backend(session, folder, runner, (workspace, caches), tmp, agent))
}

/// Containers have the workspace at its own path, so that absolute paths mean the same there. Errors:
/// that would hide the system of the image.
pub(crate) fn check_workspace(workspace: &Path) -> Result<(), LaunchError> {
    let systems = [
        "/",
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/home",
        "/lib",
        "/lib64",
        "/opt",
        "/opt/aifo",
        "/proc",
        "/run",
        "/sbin",
        "/sys",
        "/tmp",
        "/usr",
        "/usr/local",
        "/var",
        "/var/tmp",
    ];
    if systems.iter().any(|system| Path::new(system) == workspace) {
        return Err(LaunchError::SystemWorkspace(workspace.to_owned()));
    }
    Ok(())
}

/// A place below `/tmp` is mounted into what the containers have there: the engine would make the
/// folder for it as root.
fn make_mount_point(tmp: &Path, place: &Path) -> Result<(), LaunchError> {
    let Ok(rest) = place.strip_prefix("/tmp") else { return Ok(()) };
    let path = tmp.join(rest);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    made.map_err(|source| LaunchError::Directory { path, source })
}

/// A backend of either kind, and what has to be cleaned when all is over.
pub(crate) struct SelectedBackend {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) containers: Option<ContainerBackend>,
}

/// The images that these kinds are made from, which the engine does not have.
pub async fn missing_images(containers: &Containers, kinds: &[Kind]) -> Vec<String> {
    let mut missing = Vec::new();
    for kind in kinds {
        let image = containers.images.of(kind);
        if !containers.engine.has_image(&image).await {
            missing.push(image);
        }
    }
    missing
}
