//! The agent's container, and the one way to start something in it (`spec/agents.md#how-it-is-started`).
//!
//! The agent is an exec of a runner's like any tool, so it gets terminal, signals and an exact ending
//! from the same parts: a proxy that lets nothing run but the agent, and a shim that is our child.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_proxy::{
    CallLog, Limits, Listener, Proxy, ProxyConfig, RunningTable, SharedDirectories, Transcript,
};
use aifo_sidecar::{Backend, Fleet, Reporter, Startup};
use aifo_types::{Endpoint, Kind, Token, ToolName, env};
use nix::unistd::getuid;

use crate::agent_container::{AGENT_PROGRAM, SHIM_DIR};
use crate::error::LaunchError;
use crate::proxy_task::ProxyTask;

/// A container with a runner in which an agent can be started. It ends with this.
#[derive(Debug)]
pub(crate) struct AgentEndpoint {
    endpoint: Endpoint,
    token: Token,
    forwarded: String,
    fleet: Arc<Fleet>,
    proxy_task: ProxyTask,
}

/// What a door needs of its session.
pub(crate) struct AgentEndpointConfig {
    /// The session's session_dir.
    pub(crate) session_dir: PathBuf,
    /// The session's temporary directory.
    pub(crate) tmp: PathBuf,
    /// What of our environment the agent gets.
    pub(crate) forwarding: Forwarding,
    /// Which descriptors may be handed over.
    pub(crate) shared_directories: SharedDirectories,
    /// Who is told how the container comes up.
    pub(crate) reporter: Reporter,
}

impl AgentEndpoint {
    /// Brings the container up, and listens for the one client that there is to be: ourselves.
    pub(crate) async fn open(
        config: AgentEndpointConfig,
        backend: Box<dyn Backend>,
        host: Box<dyn Backend>,
    ) -> Result<Self, LaunchError> {
        let token = Token::from_random(aifo_process::random_bits()?);
        let endpoint = Endpoint::Unix(socket_path(&config.session_dir));
        let listener = Listener::bind(&endpoint, getuid())?;
        let kinds = vec![Kind::agent()];
        let fleet = Fleet::start(backend, host, kinds, Startup::AtOnce, config.reporter).await?;
        let fleet = Arc::new(fleet);
        let mut forwarding = config.forwarding;
        // A name of ours, which can only be right.
        let _ = forwarding.allow(env::COMMAND_ENV);
        let forwarded = forwarding.additions_text();
        let proxy = Proxy::new(
            ProxyConfig {
                token: token.clone(),
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
                program: Some(Path::new(SHIM_DIR).join(AGENT_PROGRAM)),
            },
            Arc::clone(&fleet),
        );
        let proxy_task = ProxyTask::start(proxy, listener);
        Ok(AgentEndpoint { endpoint, token, forwarded, fleet, proxy_task })
    }

    /// Where the shim that carries the agent's terminal goes to.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// The variables that pass besides those of the table, separated by commas.
    pub(crate) fn forwarded(&self) -> &str {
        &self.forwarded
    }

    /// Ends whatever runs in the container, and it.
    pub(crate) async fn close(self) {
        self.proxy_task.stop().await;
        self.fleet.stop().await;
    }
}

/// In the session's session_dir, in a session_dir that no container sees.
fn socket_path(session_dir: &Path) -> PathBuf {
    session_dir.join("agent.sock")
}

fn agent_policy() -> Policy {
    let mut policy = Policy::builtin();
    // The one tool of the one kind that this proxy's fleet has.
    policy.allow(&Kind::agent(), ToolName::parse(AGENT_PROGRAM.as_bytes()).ok());
    policy
}
