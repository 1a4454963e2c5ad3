//! A running session and its end.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use aifo_agents::{AgentEndpoint, ModelKeys, OpenState};
use aifo_host::{CallCounter, CallStats, MessageLog, SessionDir, SessionInfo, ShimBinary};
use aifo_network::{NamedNetwork, Publications};
use aifo_proxy::{CallApprovals, ProxyTask};
use aifo_sidecar::{ContainerBackend, Fleet};
use aifo_types::{Kind, Token, ToolName};
use tokio::{process::Command, task::JoinSet};

use crate::config::Verbosity;
use crate::host_watch::HostWatch;
use crate::project_files::ProjectFiles;

/// A running session. [`Session::close`] ends it in order. Dropping it also removes the directories
/// and stops the sidecars, but does not wait.
#[derive(Debug)]
pub struct Session {
    pub(crate) info: SessionInfo,
    /// Updates the record; ends before the directory is removed.
    pub(crate) _record_updates: JoinSet<()>,
    pub(crate) directory: SessionDir,
    pub(crate) tmp: SessionDir,
    /// The directory of the proxy's socket and the shims' settings, which the agent's container has.
    pub(crate) frontend_dir: PathBuf,
    pub(crate) local_python: Option<PathBuf>,
    pub(crate) notify_tools: Vec<String>,
    pub(crate) token: Token,
    pub(crate) verbosity: Verbosity,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) containers: Option<ContainerBackend>,
    /// The gateway of its network by name, if it has one.
    pub(crate) network: Option<NamedNetwork>,
    /// The ports of its tools that this machine serves.
    pub(crate) publications: Option<Arc<Publications>>,
    /// The agent's container, if there is one.
    pub(crate) agent_endpoint: Option<AgentEndpoint>,
    /// The agent's own state, if it has one.
    pub(crate) state: Option<OpenState>,
    pub(crate) approvals: CallApprovals,
    pub(crate) call_counter: Arc<CallCounter>,
    /// Writes to the log.
    pub(crate) messages: MessageLog,
    /// As they were before anything was started.
    pub(crate) project_files: ProjectFiles,
    /// The tool of the trial call.
    pub(crate) probe: Option<ToolName>,
    pub(crate) shim: ShimBinary,
    pub(crate) proxy_task: ProxyTask,
    /// Ends the agent on this machine if this process is killed.
    pub(crate) host_watch: OnceLock<HostWatch>,
    /// The socket's directory, if the session created it.
    pub(crate) _socket_directory: Option<SessionDir>,
}

impl Session {
    /// Returns the variables that clients need: URL, token, workspace, in this order, and the names
    /// of additional variables, if any. Pass them in an environment, never on a command line.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        self.info.variables_with(self.token.reveal())
    }

    /// Returns a command that makes one tool call through the shim and ends as the tool does. The
    /// caller adds arguments, and may change directory and standard streams. It must not outlive the
    /// session.
    pub fn exec(&self, tool: &ToolName) -> Command {
        let mut command = Command::new(self.shim.program());
        command.arg0(tool.as_str()).envs(self.variables()).current_dir(self.workspace());
        command
    }

    /// Returns its id.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// Returns its calls that wait for approval.
    pub fn approvals(&self) -> CallApprovals {
        self.approvals.clone()
    }

    /// Returns the path of its log, one JSON line per call or message.
    pub fn log(&self) -> &Path {
        &self.info.log
    }

    /// Returns a writer for messages in its log.
    pub fn messages(&self) -> MessageLog {
        self.messages.clone()
    }

    /// Returns the agent's own python, if it is configured.
    pub fn local_python(&self) -> Option<&Path> {
        self.local_python.as_deref()
    }

    /// Returns a line about the agent's own state, if the session has created it or imported
    /// something.
    pub fn state_notice(&self) -> Option<&str> {
        self.state.as_ref()?.notice()
    }

    /// Returns the keys that the agent works with without having them.
    pub fn model_keys(&self) -> Option<&ModelKeys> {
        self.agent_endpoint.as_ref()?.keys()
    }

    /// Returns whether the agent works with a state of its own, instead of the user's.
    pub fn has_own_state(&self) -> bool {
        self.state.is_some()
    }

    /// Returns the names under which shims send notifications.
    pub fn notify_tools(&self) -> &[String] {
        &self.notify_tools
    }

    /// Returns the directory of shims.
    pub fn shims(&self) -> PathBuf {
        self.directory.path().join("shims")
    }

    /// Returns the temporary directory that agent and tools share.
    pub fn tmp(&self) -> &Path {
        self.tmp.path()
    }

    /// Returns whether decisions are logged.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Returns the kinds of its sidecars, running or not.
    pub fn kinds(&self) -> &[Kind] {
        self.fleet.offered()
    }

    /// Restarts the count of calls.
    pub(crate) fn reset_call_stats(&self) {
        self.call_counter.reset();
    }

    /// Returns the project's root, a real path.
    pub fn workspace(&self) -> &Path {
        &self.info.workspace
    }

    pub(crate) fn frontend_dir(&self) -> &Path {
        &self.frontend_dir
    }

    pub(crate) fn agent_endpoint(&self) -> Option<&AgentEndpoint> {
        self.agent_endpoint.as_ref()
    }

    /// From now on, processes with the session's token end if this process is killed.
    pub(crate) fn watch_host(&self) -> io::Result<()> {
        if self.host_watch.get().is_none() {
            let watch = HostWatch::start(&self.shim, &self.token)?;
            // Of two concurrent ones, one is dropped and ends.
            let _ = self.host_watch.set(watch);
        }
        Ok(())
    }

    pub(crate) fn shim(&self) -> &ShimBinary {
        &self.shim
    }

    pub(crate) fn probe(&self) -> Option<&ToolName> {
        self.probe.as_ref()
    }

    /// Returns the addresses on this machine at which ports of the tools are reached, with those ports.
    pub fn published(&self) -> Vec<(SocketAddr, u16)> {
        self.publications.as_ref().map(|open| open.addresses()).unwrap_or_default()
    }

    /// Ends the session: refuses new clients, ends running tools by signal escalation and reports
    /// their endings, then removes sidecars and directories, and reports changed project files. Returns the totals of calls since the
    /// agent's start, or since the session's.
    pub async fn close(self) -> CallStats {
        drop(self.publications);
        if let Some(agent_endpoint) = self.agent_endpoint {
            agent_endpoint.close().await;
        }
        self.proxy_task.stop().await;
        if let Some(containers) = &self.containers {
            // A sidecar may be starting on demand.
            containers.cancel_starts();
        }
        self.fleet.stop().await;
        clean(self.containers.as_ref()).await;
        for line in self.project_files.report() {
            tracing::warn!("{line}");
        }
        for line in self.network.iter().flat_map(NamedNetwork::report) {
            tracing::warn!("{line}");
        }
        // The agent has ended, so its last login is copied now.
        drop(self.state);
        self.call_counter.snapshot()
    }
}

/// Removes the session's containers and networks.
pub(crate) async fn clean(containers: Option<&ContainerBackend>) {
    let Some(containers) = containers else { return };
    if let Err(error) = containers.clean().await {
        tracing::error!("{error}; `aifo-coder cleanup` removes what is left");
    }
}
