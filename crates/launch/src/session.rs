//! A session that is up, and its end.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use aifo_sidecar::{ContainerBackend, Fleet};
use aifo_types::{Kind, Token, ToolName};
use tokio::task::JoinSet;

use crate::agent_endpoint::AgentEndpoint;
use crate::call_stats::{CallCounter, CallStats};
use crate::config::Verbosity;
use crate::host_watch::HostWatch;
use crate::proxy_task::ProxyTask;
use crate::running::SessionInfo;
use crate::session_dir::SessionDir;
use crate::shim_binary::ShimBinary;

/// A running session. [`Session::close`] ends it in good order; dropping it is the emergency exit,
/// which still removes the folders and lets the sidecars go.
#[derive(Debug)]
pub struct Session {
    pub(crate) info: SessionInfo,
    /// Keeps telling in the folder what runs; it ends before that goes.
    pub(crate) _record_updates: JoinSet<()>,
    pub(crate) directory: SessionDir,
    pub(crate) tmp: SessionDir,
    pub(crate) local_python: Option<PathBuf>,
    pub(crate) notify_tools: Vec<String>,
    pub(crate) token: Token,
    pub(crate) verbosity: Verbosity,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) containers: Option<ContainerBackend>,
    /// Where the agent runs, if that is a container.
    pub(crate) agent_endpoint: Option<AgentEndpoint>,
    pub(crate) call_counter: Arc<CallCounter>,
    /// Which of the agent's tools is asked whether all is well.
    pub(crate) probe: Option<ToolName>,
    pub(crate) shim: ShimBinary,
    pub(crate) proxy_task: ProxyTask,
    /// Once the agent runs on this machine: ends it if this process is killed.
    pub(crate) host_watch: OnceLock<HostWatch>,
    /// The folder of the socket, if it had to be made for it.
    pub(crate) _socket_directory: Option<SessionDir>,
}

impl Session {
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
        self.directory.path().join("shims")
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
    pub(crate) fn reset_call_stats(&self) {
        self.call_counter.reset();
    }

    /// The project's root; a real path.
    pub fn workspace(&self) -> &Path {
        &self.info.workspace
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn agent_endpoint(&self) -> Option<&AgentEndpoint> {
        self.agent_endpoint.as_ref()
    }

    /// From here on, what was started with the session's token ends if this process is killed.
    pub(crate) fn watch_host(&self) -> io::Result<()> {
        if self.host_watch.get().is_none() {
            let watch = HostWatch::start(&self.shim, &self.token)?;
            // Of two that came at the same time one is dropped, which ends it.
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

    /// Ends the session: nobody is let in any more, every tool is ended by the ladder and its
    /// client told, the sidecars go, and the folders with them. Returns what the tools came to since
    /// the agent was started, or if none was, since the beginning.
    pub async fn close(self) -> CallStats {
        if let Some(agent_endpoint) = self.agent_endpoint {
            agent_endpoint.close().await;
        }
        self.proxy_task.stop().await;
        if let Some(containers) = &self.containers {
            // Of those that start on demand one may be on its way, and nobody waits for it any more.
            containers.cancel_starts();
        }
        self.fleet.stop().await;
        clean(self.containers.as_ref()).await;
        self.call_counter.snapshot()
    }
}

/// Leaves nothing of a session on its engine.
pub(crate) async fn clean(containers: Option<&ContainerBackend>) {
    let Some(containers) = containers else { return };
    if let Err(error) = containers.clean().await {
        tracing::error!("{error}\nhint: `aifo-coder cleanup` removes what is left");
    }
}
