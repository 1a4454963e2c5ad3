//! Bringing a session up, and taking it down.

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::{Future, pending};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_process::raise_open_files;
use aifo_proxy::{
    BindError, Board, Limits, Listener, Proxy, ProxyConfig, SharedPlaces, Transcript,
};
use aifo_sidecar::{
    CONTAINER_TMP, CONTAINER_WORKSPACE, ContainerBackend, Fleet, LocalBackend, LocalConfinement,
    Reporter, SidecarError, Startup, Transport,
};
use aifo_types::{Endpoint, Kind, Token, ToolName};
use nix::unistd::getuid;
use tokio::task::JoinSet;

use crate::attachments::Attachments;
use crate::backend::{self, Chosen, RunnerTransport, SidecarBackend};
use crate::call_log::{self, CallLogs};
use crate::check;
use crate::confine::Confine;
use crate::door::{Door, DoorConfig};
use crate::folder::{Folder, PREFIX, TMP_SUFFIX, runtime_directory};
use crate::place::{self, AgentPlace};
use crate::running::{BOARD, SessionInfo, in_order, keep_card};
use crate::serving::Serving;
use crate::shim_binary::{ShimBinary, ShimBinaryError};
use crate::shims::{link_tools, path_without_shims};
use crate::tally::{Tally, TallyKeeper};
use crate::toolchain::{Toolchain, Version, VersionSource};

/// What a session is to be.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The project's root.
    pub workspace: PathBuf,
    /// The shim, which is the sidecars' runner too.
    pub shim: ShimBinary,
    /// Which sidecars to offer; with none, every tool is refused.
    pub toolchains: Vec<Toolchain>,
    /// How they run.
    pub backend: SidecarBackend,
    /// Which of them run in containers that the user runs already, whatever the others do.
    pub attached: Option<Attachments>,
    /// What their runners are reached by.
    pub runner_transport: RunnerTransport,
    /// When they are started, and stopped.
    pub startup: Startup,
    /// Who is told how they come and go.
    pub reporter: Reporter,
    /// Where the proxy listens, or `None` for a unix socket in the session's own folder.
    pub listen: Option<Endpoint>,
    /// Which tools run, and where.
    pub policy: Policy,
    /// Which of a caller's variables a tool gets.
    pub forwarding: Forwarding,
    /// Which notifications may be run on the host.
    pub notify: NotifyRules,
    /// Whether tools are held to their place.
    pub confinement: Confine,
    /// The agent's own python, for what a smart shim runs locally; else the usual places.
    pub local_python: Option<PathBuf>,
    /// How long a tool may run, or `None` for as long as it likes.
    pub max_runtime: Option<Duration>,
    /// What clients may send, and how many tools may run at once.
    pub limits: Limits,
    /// Whether shims and proxy tell their decisions.
    pub verbosity: Verbosity,
    /// How long the log of calls is kept.
    pub call_logs: CallLogs,
    /// The container that the agent runs in. Without one it is a process of this machine.
    pub agent: Option<AgentPlace>,
    /// Which of our variables the agent gets in its container.
    pub agent_forwarding: Forwarding,
}

/// Whether the parties of a session tell what they decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Only what goes wrong.
    #[default]
    Quiet,
    /// Every decision. Shims write theirs to stderr, so a buffered answer is set off by newlines.
    Verbose,
}

/// A running session. [`Session::close`] ends it in good order; dropping it is the emergency exit,
/// which still removes the folders and lets the sidecars go.
#[derive(Debug)]
pub struct Session {
    info: SessionInfo,
    /// Keeps telling in the folder what runs; it ends before that goes.
    _card: JoinSet<()>,
    folder: Folder,
    tmp: Folder,
    local_python: Option<PathBuf>,
    notify_tools: Vec<String>,
    token: Token,
    verbosity: Verbosity,
    fleet: Arc<Fleet>,
    containers: Option<ContainerBackend>,
    /// Where the agent runs, if that is a container.
    door: Option<Door>,
    tally: Arc<TallyKeeper>,
    /// Which of the agent's tools is asked whether all is well.
    probe: Option<ToolName>,
    shim: PathBuf,
    serving: Serving,
    /// The folder of the socket, if it had to be made for it.
    _socket_folder: Option<Folder>,
}

/// Why a session did not come up. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no usable shim.
    #[error(transparent)]
    Shim(#[from] ShimBinaryError),
    /// The workspace is not a directory.
    #[error("'{}' cannot be the workspace: {source}", path.display())]
    Workspace {
        /// What was asked for.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Containers would not find their own system any more.
    #[error(
        "'{}' cannot be the workspace of containers: they have their own system there\n\
         hint: name the project's folder with --workspace",
        .0.display()
    )]
    SystemWorkspace(PathBuf),
    /// A folder of the session could not be made.
    #[error("cannot make the session's folder '{}': {source}", path.display())]
    Folder {
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
    Version {
        /// Of which kind.
        kind: Kind,
        /// What was asked for.
        version: Version,
    },
    /// Another agent works there.
    #[error(
        "an agent works in '{}' already: {by}\n\
         hint: let both in with --force-share, or give this one a worktree of its own",
        workspace.display()
    )]
    Taken {
        /// Where.
        workspace: PathBuf,
        /// Who.
        by: String,
    },
    /// An agent in a container cannot reach the session.
    #[error("the agent cannot run in a container: {0}")]
    AgentPlace(&'static str),
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

impl SessionConfig {
    /// A session over a workspace, with nothing but the defaults: no sidecars, no time limit.
    pub fn new(workspace: impl Into<PathBuf>, shim: ShimBinary) -> Self {
        SessionConfig {
            workspace: workspace.into(),
            shim,
            toolchains: Vec::new(),
            backend: SidecarBackend::Local,
            attached: None,
            runner_transport: RunnerTransport::Auto,
            startup: Startup::AtOnce,
            reporter: Reporter::default(),
            listen: None,
            policy: Policy::builtin(),
            forwarding: Forwarding::builtin(),
            notify: NotifyRules::default(),
            confinement: Confine::Auto,
            local_python: None,
            max_runtime: None,
            limits: Limits::default(),
            verbosity: Verbosity::Quiet,
            call_logs: CallLogs::Kept,
            agent: None,
            agent_forwarding: Forwarding::builtin(),
        }
    }
}

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
        config: SessionConfig,
        called_off: impl Future<Output = T>,
    ) -> Result<Result<Self, T>, LaunchError> {
        let workspace = real_directory(&config.workspace)?;
        if let SidecarBackend::Local = config.backend {
            what_is_installed_will_do(&config.toolchains)?;
        }
        if config.agent.is_some() {
            check_agent_place(&config)?;
        }
        let open_files = raise_open_files()?;
        let token = Token::from_random(aifo_process::random_bits()?);
        let id = new_id()?;
        let folder = session_folder(&runtime_directory(), &id)?;
        let temporary = match config.backend {
            SidecarBackend::Local => std::env::temp_dir(),
            SidecarBackend::Containers(_) => backend::temporary_directory(),
        };
        let tmp = session_folder(&temporary, &format!("{id}{TMP_SUFFIX}"))?;
        let shims = folder.path().join("shims");
        make_folder(&shims)?;
        link_tools(&shims, config.shim.path(), &config.policy, &config.notify)?;

        // Listening comes before the sidecars, so that a socket in use costs nobody a wait.
        let mut socket_folder = None;
        let endpoint = match config.listen {
            None => {
                let front = place::front(folder.path());
                make_folder(&front)?;
                Endpoint::Unix(front.join("exec.sock"))
            }
            Some(Endpoint::Unix(path)) => {
                socket_folder = missing_parent(&path)?;
                Endpoint::Unix(path)
            }
            Some(tcp) => tcp,
        };
        let listener = Listener::bind(&endpoint, getuid())?;
        let endpoint = listener.endpoint().clone();

        let shared_tmp = real_directory(tmp.path())?;
        let local = LocalBackend {
            runner_program: config.shim.path().to_owned(),
            workspace: workspace.clone(),
            tmp: Some(shared_tmp.clone()),
            path: path_without_shims(std::env::var_os("PATH")),
            open_files,
            confinement: config.confinement.local()?,
            transport: config.runner_transport.local(),
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
                let folder = folder.path();
                let mut agent = None;
                if let Some(asked) = &config.agent {
                    let as_root = containers.runs_as_root();
                    let tools = (&config.policy, &config.notify);
                    place::furnish(asked, folder, tools, as_root).await?;
                    agent = Some(place::container(asked, folder));
                }
                let backend = backend::container_backend(
                    containers,
                    &id,
                    folder,
                    runner,
                    &workspace,
                    &shared_tmp,
                    agent,
                )?;
                Chosen { backend: Box::new(backend.clone()), containers: Some(backend) }
            }
        };
        let shared = [workspaces, temporaries];
        let places = SharedPlaces::new(workspace.clone(), shared.clone())?;
        let door = match (&config.agent, &chosen.containers) {
            (Some(_), Some(containers)) => {
                let config = DoorConfig {
                    folder: folder.path().to_owned(),
                    tmp: tmp.path().to_owned(),
                    forwarding: config.agent_forwarding.clone(),
                    places: SharedPlaces::new(workspace.clone(), shared)?,
                    reporter: config.reporter.clone(),
                };
                Some(Door::open(config, Box::new(containers.clone()), Box::new(host.clone())))
            }
            _ => None,
        };
        let door = async {
            match door {
                Some(opening) => opening.await.map(Some),
                None => Ok(None),
            }
        };
        let (runner, others) = (config.shim.path(), chosen.backend);
        let backend = match &config.attached {
            Some(attached) => attached.over(others, &id, folder.path(), runner, &workspace),
            None => others,
        };
        let kinds: Vec<Kind> =
            config.toolchains.into_iter().map(|toolchain| toolchain.kind).collect();
        let (startup, reporter) = (config.startup, config.reporter);
        let probe = check::probe(&config.policy, &kinds, startup);
        // One may fail while the other is still on its way: all of it is taken down then.
        let started = async {
            let fleet = async {
                let fleet = Fleet::start(backend, Box::new(host), kinds, startup, reporter).await;
                fleet.map_err(LaunchError::from)
            };
            tokio::try_join!(fleet, door)
        };
        let started = tokio::select! {
            started = started => started,
            told = called_off => {
                clean(chosen.containers.as_ref()).await;
                return Ok(Err(told));
            }
        };
        let (fleet, door) = match started {
            Ok(started) => started,
            Err(error) => {
                clean(chosen.containers.as_ref()).await;
                return Err(error);
            }
        };
        let fleet = Arc::new(fleet);
        let mut up = fleet.running();
        let up_now = in_order(fleet.offered(), &up.borrow_and_update());
        let tally = Arc::new(TallyKeeper::default());
        let (log, call_log) =
            call_log::open(&id, folder.path(), config.call_logs, Arc::clone(&tally))?;
        let info = SessionInfo {
            id,
            pid: std::process::id(),
            workspace: workspace.clone(),
            url: endpoint.to_string(),
            forwarded: config.forwarding.additions_text(),
            kinds: fleet.offered().to_vec(),
            up: up_now,
            backend: config.backend.name().to_owned(),
            agent: config.agent.as_ref().map(|agent| agent.spec.name.clone()),
            started: SystemTime::now(),
            log,
            folder: folder.path().to_owned(),
            tmp: tmp.path().to_owned(),
            socket_folder: socket_folder.as_ref().map(|folder| folder.path().to_owned()),
        };
        info.publish(&token)?;
        let mut card = JoinSet::new();
        card.spawn(keep_card(info.clone(), up));
        let notify_tools = config.notify.allowlist.clone();
        let proxy = Proxy::new(
            ProxyConfig {
                token: token.clone(),
                policy: config.policy,
                forwarding: config.forwarding,
                notify: config.notify,
                call_log,
                board: Board::create(&folder.path().join(BOARD))?,
                limits: config.limits,
                max_runtime: config.max_runtime,
                transcript: match config.verbosity {
                    Verbosity::Quiet => Transcript::Plain,
                    Verbosity::Verbose => Transcript::OnOwnLines,
                },
                spool_dir: tmp.path().to_owned(),
                places,
                program: None,
            },
            Arc::clone(&fleet),
        );
        let serving = Serving::start(proxy, listener);
        Ok(Ok(Session {
            info,
            _card: card,
            folder,
            tmp,
            local_python: config.local_python,
            notify_tools,
            token,
            verbosity: config.verbosity,
            fleet,
            containers: chosen.containers,
            door,
            tally,
            probe,
            shim: config.shim.path().to_owned(),
            serving,
            _socket_folder: socket_folder,
        }))
    }

    /// What a client needs to find the proxy, to be let in and to send what may pass: URL, token
    /// and workspace, in this order, and which variables pass besides those of the table, if any.
    /// They belong into an environment, never onto a command line.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.info.variables_with(self.token.reveal())
    }

    /// Its id, by which other commands name it.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// Its log of calls, one JSON line each.
    pub fn log(&self) -> &Path {
        &self.info.log
    }

    /// The agent's own python, if it was named.
    pub fn local_python(&self) -> Option<&Path> {
        self.local_python.as_deref()
    }

    /// The names under which shims notify.
    pub fn notify_tools(&self) -> &[String] {
        &self.notify_tools
    }

    /// The folder with a shim under every tool's name.
    pub fn shims(&self) -> PathBuf {
        self.folder.path().join("shims")
    }

    /// The temporary directory that agent and tools share.
    pub fn tmp(&self) -> &Path {
        self.tmp.path()
    }

    /// Whether decisions are told.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// The kinds of the session's sidecars, whether or not they run.
    pub fn kinds(&self) -> &[Kind] {
        self.fleet.offered()
    }

    /// Counts tool calls from here on.
    pub(crate) fn begin_tally(&self) {
        self.tally.begin();
    }

    /// The project's root; a real path.
    pub fn workspace(&self) -> &Path {
        &self.info.workspace
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn door(&self) -> Option<&Door> {
        self.door.as_ref()
    }

    pub(crate) fn shim(&self) -> &Path {
        &self.shim
    }

    pub(crate) fn probe(&self) -> Option<&ToolName> {
        self.probe.as_ref()
    }

    /// Ends the session: nobody is let in any more, every tool is ended by the ladder and its
    /// client told, the sidecars go, and the folders with them. Returns what the tools came to since
    /// the agent was started, or if none was, since the beginning.
    pub async fn close(self) -> Tally {
        if let Some(door) = self.door {
            door.close().await;
        }
        self.serving.stop().await;
        if let Some(containers) = &self.containers {
            // Of those that start on demand one may be on its way, and nobody waits for it any more.
            containers.call_off();
        }
        self.fleet.stop().await;
        clean(self.containers.as_ref()).await;
        self.tally.now()
    }
}

/// Leaves nothing of a session on its engine.
async fn clean(containers: Option<&ContainerBackend>) {
    let Some(containers) = containers else { return };
    if let Err(error) = containers.clean().await {
        tracing::error!("{error}\nhint: `aifo-coder cleanup` removes what is left");
    }
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
    if !containers.engine.facts().shares_our_kernel() {
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

pub(crate) fn real_directory(path: &Path) -> Result<PathBuf, LaunchError> {
    let workspace = |source| LaunchError::Workspace { path: path.to_owned(), source };
    let real = path.canonicalize().map_err(workspace)?;
    if real.is_dir() { Ok(real) } else { Err(workspace(io::ErrorKind::NotADirectory.into())) }
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
