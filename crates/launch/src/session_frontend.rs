//! What clients and users of a session reach: its proxy, its record, its questions and its log.

use std::io;
use std::path::Path;
use std::sync::Arc;

use aifo_host::{
    CallCounter, MessageLog, RUNNING_TABLE, SessionDir, SessionHistory, SessionInfo, call_log,
    log_file::{LogFile, connections_path},
    update_record,
};
use aifo_network::{CallerFinder, added_rules, publications};
use aifo_proxy::{
    CallApprovals, Proxy, ProxyConfig, ProxyTask, RunningTable, SharedDirectories, Transcript,
};
use aifo_types::Token;
use tokio::task::JoinSet;

use crate::backend::SidecarBackend;
use crate::config::{SessionConfig, Verbosity};
use crate::error::LaunchError;
use crate::front_socket::FrontSocket;
use crate::questions;
use crate::session_tools::SessionTools;

/// A running frontend.
#[derive(Debug)]
pub(crate) struct SessionFrontend {
    /// `None` once it has ended.
    proxy: Option<ProxyTask>,
    pub(crate) approvals: CallApprovals,
    pub(crate) call_counter: Arc<CallCounter>,
    /// Writes to the log.
    pub(crate) messages: MessageLog,
    pub(crate) history: Option<SessionHistory>,
    /// Updates the record and serves users; ends before the session directory is removed.
    _tasks: JoinSet<()>,
    /// The socket's directory, if the session created it.
    _socket_directory: Option<SessionDir>,
}

/// Logs, before the first call.
pub(crate) struct SessionLogs {
    log: call_log::OpenLog,
    counter: Arc<CallCounter>,
    running: RunningTable,
}

impl SessionLogs {
    /// Creates them in the session directory, or where logs are kept. A network by name begins to log.
    pub(crate) fn open(
        config: &SessionConfig,
        id: &str,
        directory: &SessionDir,
        tools: &SessionTools,
    ) -> Result<Self, LaunchError> {
        let (counter, limits) = (Arc::new(CallCounter::default()), &config.limits);
        let of_calls = Arc::clone(&counter);
        let log = call_log::open(id, directory.path(), config.call_logs, limits, of_calls)?;
        let running = RunningTable::create(&directory.path().join(RUNNING_TABLE))?;
        if let Some(network) = &tools.network {
            let file = LogFile::create(&connections_path(&log.path), limits.max_log)?;
            let outside = config.attached.iter().flat_map(|attached| attached.containers.keys());
            let outside = outside.cloned().collect();
            let stacks = network.tool_stacks().clone();
            let finder = CallerFinder::new(&tools.fleet, running.clone(), stacks, outside);
            network.open_log(file, finder);
        }
        Ok(SessionLogs { log, counter, running })
    }

    /// Returns the path of the log of calls.
    pub(crate) fn path(&self) -> &Path {
        &self.log.path
    }
}

impl SessionFrontend {
    /// Publishes the session record, and starts the proxy.
    pub(crate) fn open(
        config: SessionConfig,
        (info, token): (&SessionInfo, &Token),
        socket: FrontSocket,
        logs: SessionLogs,
        tools: &SessionTools,
        shared_directories: SharedDirectories,
    ) -> Result<Self, LaunchError> {
        let SessionLogs { log, counter, running } = logs;
        info.publish(token)?;
        let mut tasks = JoinSet::new();
        serve_record(&config, info, tools, &mut tasks)?;
        let names = shared_directories.names();
        let history = start_history(&config, info);
        let approvals =
            questions::open(&config, names, (info, token), history.clone(), &mut tasks)?;
        let calls = match &history {
            Some(history) => log.calls.with_checkpoints(Arc::new(history.clone())),
            None => log.calls,
        };
        let proxy = Proxy::new(
            ProxyConfig {
                token: token.clone(),
                policy: config.policy,
                approvals: approvals.clone(),
                in_place: config.in_place,
                forwarding: config.forwarding,
                notify: config.notify,
                call_log: calls,
                running_table: running,
                limits: config.limits,
                max_runtime: config.max_runtime,
                transcript: match config.verbosity {
                    Verbosity::Quiet => Transcript::Plain,
                    Verbosity::Verbose => Transcript::OnOwnLines,
                },
                spool_dir: info.tmp.clone(),
                shared_directories,
                program: None,
            },
            Arc::clone(&tools.fleet),
        );
        Ok(SessionFrontend {
            proxy: Some(ProxyTask::start(proxy, socket.listener)),
            approvals,
            call_counter: counter,
            messages: log.messages,
            history,
            _tasks: tasks,
            _socket_directory: socket.directory,
        })
    }

    /// Refuses new clients, and ends running tools by signal escalation.
    pub(crate) async fn stop(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.stop().await;
        }
    }
}

/// Starts the history, if there is one; it runs beside the agent's start.
fn start_history(config: &SessionConfig, info: &SessionInfo) -> Option<SessionHistory> {
    let settings = config.history.clone()?;
    SessionHistory::start(settings, &info.id, &info.workspace)
        .inspect_err(|error| tracing::warn!("{error}; changes cannot be undone"))
        .ok()
}

/// Keeps the record current, and serves requests of users beside it.
fn serve_record(
    config: &SessionConfig,
    info: &SessionInfo,
    tools: &SessionTools,
    tasks: &mut JoinSet<()>,
) -> io::Result<()> {
    tasks.spawn(update_record(info.clone(), tools.fleet.running()));
    // Local tools have the session directory's user.
    let is_local = matches!(config.backend, SidecarBackend::Local);
    if let Some(network) = tools.network.as_ref().filter(|_| !is_local) {
        tasks.spawn(added_rules::apply(info.directory.clone(), network.clone()));
    }
    if let Some(open) = &tools.publications {
        tasks.spawn(publications::serve_requests(&info.directory, open)?);
    }
    Ok(())
}
