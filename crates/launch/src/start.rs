//! Starts a session: directories and shims, then sidecars, then the proxy.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use aifo_agents::AgentEndpoint;
use aifo_host::{SessionInfo, in_order, new_session_name};
use aifo_proxy::SharedDirectories;
use aifo_types::Token;

use crate::check;
use crate::config::SessionConfig;
use crate::error::LaunchError;
use crate::forge_questions::ForgeQuestions;
use crate::front_socket::FrontSocket;
use crate::session::{Session, SessionAgent, SessionFiles};
use crate::session_dirs::SessionDirs;
use crate::session_frontend::{SessionFrontend, SessionLogs};
use crate::session_tools::{Backends, SessionTools, clean};

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
        let socket = FrontSocket::open(config.listen.take(), &dirs.frontend(&config.backend))?;
        let backends = Backends::choose(&config, &dirs).await?;
        let shared = SharedDirectories::new(dirs.workspace.clone(), backends.shared.clone())?;
        let containers = backends.containers();
        // If one part fails while the other still starts, both are removed.
        let started = tokio::select! {
            started = backends.start(&config, &dirs) => started,
            cause = cancelled => {
                clean(containers.as_ref()).await;
                return Ok(Err(cause));
            }
        };
        match started {
            Ok(started) => Session::open(config, dirs, socket, started, shared).map(Ok),
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
        socket: FrontSocket,
        (tools, endpoint): (SessionTools, Option<AgentEndpoint>),
        shared: SharedDirectories,
    ) -> Result<Self, LaunchError> {
        let frontend_dir = dirs.frontend(&config.backend);
        let SessionDirs { id, workspace, directory, tmp, project_files, state, .. } = dirs;
        // Before the first call.
        let project_files = project_files.join().unwrap_or_else(|panic| resume_unwind(panic));
        let token = Token::from_random(aifo_process::random_bits()?);
        let logs = SessionLogs::open(&config, &id, &directory, &tools)?;
        let (fleet, network) = (&tools.fleet, tools.network.as_ref());
        let info = SessionInfo {
            id,
            name: new_session_name(&config.name),
            pid: std::process::id(),
            workspace,
            url: socket.listener.endpoint().to_string(),
            forwarded: config.forwarding.additions_text(),
            kinds: fleet.offered().to_vec(),
            up: in_order(fleet.offered(), &fleet.running().borrow_and_update()),
            backend: config.backend.name().to_owned(),
            agent: config.agent.as_ref().map(|agent| agent.spec.name.clone()),
            name_ports: network.map(|network| network.name_ports().to_vec()),
            tool_stacks: network.map_or_else(Vec::new, |network| {
                network.tool_stacks().iter().map(|stack| stack.kinds.clone()).collect()
            }),
            started: SystemTime::now(),
            log: logs.path().to_owned(),
            directory: directory.path().to_owned(),
            tmp: tmp.path().to_owned(),
            socket_directory: socket.directory.as_ref().map(|parent| parent.path().to_owned()),
        };
        let mut agent = SessionAgent {
            endpoint,
            local_python: config.local_python.clone(),
            notify_tools: config.notify.allowlist.clone(),
            probe: check::probe(&config.policy, config.initial_kinds()),
            host_watch: OnceLock::new(),
        };
        let (verbosity, shim) = (config.verbosity, config.shim.clone());
        let frontend =
            SessionFrontend::open(config, (&info, &token), socket, logs, &tools, shared)?;
        if let Some(endpoint) = &mut agent.endpoint {
            let questions = ForgeQuestions::new(frontend.approvals.clone(), &info.workspace);
            endpoint.serve_forges(Arc::new(questions));
        }
        Ok(Session {
            info,
            frontend,
            tools,
            agent,
            files: SessionFiles { directory, tmp, frontend_dir, project_files, state },
            token,
            shim,
            verbosity,
        })
    }
}
