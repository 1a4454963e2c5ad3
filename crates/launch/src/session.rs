//! A running session and its end.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use aifo_agents::{AgentEndpoint, AgentForges, ModelKeys, OpenState};
use aifo_host::{CallStats, MessageLog, SessionDir, SessionHistory, SessionInfo, ShimBinary};
use aifo_proxy::CallApprovals;
use aifo_types::{Kind, Token, ToolName};
use tokio::process::Command;

use crate::config::Verbosity;
use crate::host_watch::HostWatch;
use crate::project_files::ProjectFiles;
use crate::session_frontend::SessionFrontend;
use crate::session_tools::SessionTools;

/// A running session, in four parts, each with its own end. [`Session::close`] ends them in order. Dropping it
/// also removes the directories and stops the sidecars, but does not wait.
#[derive(Debug)]
pub struct Session {
    pub(crate) info: SessionInfo,
    // Dropped in this order: clients, tools, agent, and at last the directories.
    pub(crate) frontend: SessionFrontend,
    pub(crate) tools: SessionTools,
    pub(crate) agent: SessionAgent,
    pub(crate) files: SessionFiles,
    pub(crate) token: Token,
    pub(crate) shim: ShimBinary,
    pub(crate) verbosity: Verbosity,
}

/// What its agent has beside the tools.
#[derive(Debug)]
pub(crate) struct SessionAgent {
    /// Its container, if there is one.
    pub(crate) endpoint: Option<AgentEndpoint>,
    pub(crate) local_python: Option<PathBuf>,
    pub(crate) notify_tools: Vec<String>,
    /// The tool of the trial call.
    pub(crate) probe: Option<ToolName>,
    /// Ends the agent on this machine if this process is killed.
    pub(crate) host_watch: OnceLock<HostWatch>,
}

/// Its files.
#[derive(Debug)]
pub(crate) struct SessionFiles {
    pub(crate) directory: SessionDir,
    pub(crate) tmp: SessionDir,
    /// The directory of the proxy socket and the shims' settings, which the agent container has.
    pub(crate) frontend_dir: PathBuf,
    /// As they were before anything was started.
    pub(crate) project_files: ProjectFiles,
    /// The agent's own state, if it has one.
    pub(crate) state: Option<OpenState>,
}

impl SessionFiles {
    /// Reports changed project files, and copies the agent's last login: the agent has ended.
    fn close(self) {
        for line in self.project_files.report() {
            tracing::warn!("{line}");
        }
        drop(self.state);
    }
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

    /// Returns the name that people type, such as `codex-1`.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Returns its id.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// Returns its calls that wait for approval.
    pub fn approvals(&self) -> CallApprovals {
        self.frontend.approvals.clone()
    }

    /// Returns its history, if it has one.
    pub fn history(&self) -> Option<SessionHistory> {
        self.frontend.history.clone()
    }

    /// Returns the path of its log, one JSON line per call or message.
    pub fn log(&self) -> &Path {
        &self.info.log
    }

    /// Returns a writer for messages in its log.
    pub fn messages(&self) -> MessageLog {
        self.frontend.messages.clone()
    }

    /// Returns the agent's own python, if it is configured.
    pub fn local_python(&self) -> Option<&Path> {
        self.agent.local_python.as_deref()
    }

    /// Returns a line about the agent's own state, if the session has created it or imported
    /// something.
    pub fn state_notice(&self) -> Option<&str> {
        self.files.state.as_ref()?.notice()
    }

    /// Returns the forges that the agent's git reaches without their credentials.
    pub fn forges(&self) -> Option<&AgentForges> {
        self.agent.endpoint.as_ref()?.forges()
    }

    /// Returns the keys that the agent works with without having them.
    pub fn model_keys(&self) -> Option<&ModelKeys> {
        self.agent.endpoint.as_ref()?.keys()
    }

    /// Returns whether the agent works with a state of its own, instead of the user's.
    pub fn has_own_state(&self) -> bool {
        self.files.state.is_some()
    }

    /// Returns the names under which shims send notifications.
    pub fn notify_tools(&self) -> &[String] {
        &self.agent.notify_tools
    }

    /// Returns the directory of shims.
    pub fn shims(&self) -> PathBuf {
        self.files.directory.path().join("shims")
    }

    /// Returns the temporary directory that agent and tools share.
    pub fn tmp(&self) -> &Path {
        self.files.tmp.path()
    }

    /// Returns whether decisions are logged.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Returns the kinds of its sidecars, running or not.
    pub fn kinds(&self) -> &[Kind] {
        self.tools.fleet.offered()
    }

    /// Restarts the count of calls.
    pub(crate) fn reset_call_stats(&self) {
        self.frontend.call_counter.reset();
    }

    /// Returns the project root, a real path.
    pub fn workspace(&self) -> &Path {
        &self.info.workspace
    }

    pub(crate) fn frontend_dir(&self) -> &Path {
        &self.files.frontend_dir
    }

    pub(crate) fn agent_endpoint(&self) -> Option<&AgentEndpoint> {
        self.agent.endpoint.as_ref()
    }

    /// From now on, processes with the session token end if this process is killed.
    pub(crate) fn watch_host(&self) -> io::Result<()> {
        if self.agent.host_watch.get().is_none() {
            let watch = HostWatch::start(&self.shim, &self.token)?;
            // Of two concurrent ones, one is dropped and ends.
            let _ = self.agent.host_watch.set(watch);
        }
        Ok(())
    }

    pub(crate) fn shim(&self) -> &ShimBinary {
        &self.shim
    }

    pub(crate) fn probe(&self) -> Option<&ToolName> {
        self.agent.probe.as_ref()
    }

    /// Returns the addresses on this machine at which ports of the tools are reached, with those ports.
    pub fn published(&self) -> Vec<(SocketAddr, u16)> {
        self.tools.publications.as_ref().map(|open| open.addresses()).unwrap_or_default()
    }

    /// Ends the session: refuses new clients, ends running tools by signal escalation and reports
    /// their endings, then removes sidecars and directories, and reports changed project files. Returns the totals of calls since the
    /// agent's start, or since the session's.
    pub async fn close(mut self) -> CallStats {
        drop(self.tools.publications.take());
        if let Some(endpoint) = self.agent.endpoint.take() {
            endpoint.close().await;
        }
        self.frontend.stop().await;
        self.tools.stop().await;
        if let Some(history) = self.frontend.history.take() {
            history.close().await;
        }
        self.files.close();
        self.tools.report();
        self.frontend.call_counter.snapshot()
    }
}
