//! The agent container and the proxy in front of it (`spec/agents.md#how-it-is-started`).
//!
//! The agent is an exec of a runner like any tool: the proxy allows only `aifo-agent`, and a shim
//! that the launcher starts carries terminal, signals and exit status.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_host::DirectoryError;
use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_provider::ForgeGate;
use aifo_proxy::{
    CallApprovals, CallLog, Listener, Proxy, ProxyConfig, ProxyTask, RunningTable,
    SharedDirectories, Transcript,
};
use aifo_sidecar::{Backend, ConnectionListener, Fleet, Reporter, Startup};
use aifo_types::{Endpoint, Kind, Token, ToolName, container_path, env};
use aifo_wire::Limits;
use nix::unistd::getuid;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

use crate::agent_container::{AGENT_PROGRAM, frontend_dir};
use crate::agent_error::AgentError;
use crate::forges::AgentForges;
use crate::keys::{KEY_PORT, ModelKeys};
use crate::usage_file;

/// Container with a runner that can start the agent, and its proxy.
#[derive(Debug)]
pub struct AgentEndpoint {
    endpoint: Endpoint,
    token: Token,
    forwarded: String,
    keys: Option<ModelKeys>,
    forges: Option<AgentForges>,
    /// Those of the forges, until they are served.
    listeners: Vec<TcpListener>,
    of_api: Option<UnixListener>,
    /// Serves the agent requests to models and forges; ends when it is dropped.
    serving: JoinSet<()>,
    fleet: Arc<Fleet>,
    proxy_task: ProxyTask,
}

/// Settings of the endpoint, taken from the session.
pub struct AgentEndpointConfig {
    /// The session directory.
    pub session_dir: PathBuf,
    /// The session's temporary directory.
    pub tmp: PathBuf,
    /// The launcher's variables that pass to the agent.
    pub forwarding: Forwarding,
    /// Directories whose descriptors may be passed.
    pub shared_directories: SharedDirectories,
    /// The keys that the agent works with.
    pub keys: Option<ModelKeys>,
    /// The forges that its git reaches.
    pub forges: Option<AgentForges>,
    /// Receives the events of the container's start.
    pub reporter: Reporter,
}

impl AgentEndpoint {
    /// Starts the container, then listens for the launcher's shims.
    pub async fn open(
        config: AgentEndpointConfig,
        backend: Box<dyn Backend>,
        host: Box<dyn Backend>,
    ) -> Result<Self, AgentError> {
        let token = Token::from_random(aifo_process::random_bits()?);
        let endpoint = Endpoint::Unix(socket_path(&config.session_dir));
        let listener = Listener::bind(&endpoint, getuid())?;
        let kinds = vec![Kind::agent()];
        let fleet = Fleet::start(backend, host, kinds, Startup::default(), config.reporter).await?;
        let fleet = Arc::new(fleet);
        let mut serving = JoinSet::new();
        if let Some(keys) = config.keys.clone() {
            let listener = bind(&fleet, KEY_PORT).await?;
            let (counted, directory) = (keys.clone(), config.session_dir.clone());
            serving.spawn(async move { usage_file::keep(|| counted.usage(), &directory).await });
            serving.spawn(async move { keys.serve(listener).await });
        }
        let frontend = frontend_dir(&config.session_dir);
        let (listeners, of_api) = listen(config.forges.as_ref(), &fleet, &frontend).await?;
        let mut forwarding = config.forwarding;
        // A constant name, which is valid.
        let _ = forwarding.allow(env::COMMAND_ENV);
        let forwarded = forwarding.additions_text();
        let proxy = Proxy::new(
            ProxyConfig {
                token: token.clone(),
                // The launcher's own calls of the agent.
                approvals: CallApprovals::allow_all(),
                in_place: BTreeSet::new(),
                policy: agent_policy(),
                forwarding,
                notify: NotifyRules { allowlist: Vec::new(), ..NotifyRules::default() },
                call_log: CallLog::default(),
                running_table: RunningTable::default(),
                limits: Limits::default(),
                max_runtime: None,
                transcript: Transcript::Plain,
                spool_dir: config.tmp,
                shared_directories: config.shared_directories,
                program: Some(Path::new(container_path::SHIM_DIR).join(AGENT_PROGRAM)),
            },
            Arc::clone(&fleet),
        );
        let proxy_task = ProxyTask::start(proxy, listener);
        Ok(AgentEndpoint {
            endpoint,
            token,
            forwarded,
            keys: config.keys,
            forges: config.forges,
            listeners,
            of_api,
            serving,
            fleet,
            proxy_task,
        })
    }

    /// Returns the address to which the agent's shim connects.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the token of the agent proxy.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Returns the variables that pass besides those of the table, separated by commas.
    pub fn forwarded(&self) -> &str {
        &self.forwarded
    }

    /// Returns the keys that the agent works with, if aifo has them for it.
    pub fn keys(&self) -> Option<&ModelKeys> {
        self.keys.as_ref()
    }

    /// Returns the forges that the agent's git reaches.
    pub fn forges(&self) -> Option<&AgentForges> {
        self.forges.as_ref()
    }

    /// Serves the requests to forges from now on. Earlier ones have waited.
    pub fn serve_forges(&mut self, gate: Arc<dyn ForgeGate>) {
        let listeners = std::mem::take(&mut self.listeners);
        if let Some(forges) = self.forges.clone() {
            self.serving.spawn(forges.serve(listeners, self.of_api.take(), gate));
        }
    }

    /// Ends the execs in the container, then the container.
    pub async fn close(self) {
        self.proxy_task.stop().await;
        self.fleet.stop().await;
    }
}

/// Binds the ports of forges, and a socket in `frontend` for gh.
async fn listen(
    forges: Option<&AgentForges>,
    fleet: &Fleet,
    frontend: &Path,
) -> Result<(Vec<TcpListener>, Option<UnixListener>), AgentError> {
    let Some(forges) = forges else { return Ok((Vec::new(), None)) };
    let mut listeners = Vec::new();
    for port in forges.ports() {
        listeners.push(bind(fleet, port).await?);
    }
    let of_api = forges.listen_api(frontend);
    Ok((listeners, of_api.map_err(|source| DirectoryError::new(frontend, source))?))
}

/// Binds a port on the agent localhost.
async fn bind(fleet: &Fleet, port: u16) -> Result<TcpListener, AgentError> {
    let failed = |reason: String| AgentError::Keys { port, reason };
    let lease = fleet.lease(&Kind::agent()).await.map_err(|error| failed(error.to_string()))?;
    let bound = lease.runner().stack_sockets().bind(port).await;
    match bound.map_err(|error| failed(error.to_string()))? {
        ConnectionListener::Socket(listener) => Ok(listener),
        ConnectionListener::Relayed(_) => {
            Err(failed("its runner passes no descriptors".to_owned()))
        }
    }
}

/// The path of the socket. No container mounts its directory.
fn socket_path(session_dir: &Path) -> PathBuf {
    session_dir.join("agent.sock")
}

fn agent_policy() -> Policy {
    let mut policy = Policy::builtin();
    // The only tool of the only kind of this proxy.
    policy.allow(&Kind::agent(), ToolName::parse(AGENT_PROGRAM.as_bytes()).ok());
    policy
}
