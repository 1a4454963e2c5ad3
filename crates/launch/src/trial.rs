//! A trial session: calls tools as an agent does, measures them, and ends the session.

mod calls;

use std::io;
use std::path::Path;

use aifo_host::{CacheScope, CallLogRetention, ShimBinary};
use aifo_types::{Kind, ToolName};
use tempfile::TempDir;

use self::calls::Calls;
pub use self::calls::Measured;
use crate::backend::SidecarBackend;
use crate::config::SessionConfig;
use crate::error::LaunchError;
use crate::session::Session;

/// The kind of the trial, whose image a backend in containers has to name.
pub fn kind() -> Kind {
    Kind::parse("doctor").unwrap_or_else(|_| Kind::host())
}

/// A session that is started to be measured.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The shim; without one there is nothing to measure.
    pub shim: Option<&'a ShimBinary>,
    /// The workspace; a temporary directory if `None`.
    pub workspace: Option<&'a Path>,
    /// Its backend.
    pub backend: SidecarBackend,
}

impl Trial<'_> {
    /// Starts the session, calls tools in it, and ends it.
    pub async fn run(self) -> Result<Measured, TrialError> {
        let shim = self.shim.ok_or(TrialError::NoShim)?;
        let substitute = match self.workspace {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(TrialError::NoWorkspace)?),
        };
        let substitute = substitute.as_ref().map(TempDir::path);
        let workspace = self.workspace.or(substitute).unwrap_or(Path::new("."));
        let mut config = SessionConfig::new(workspace, shim.clone());
        config.toolchains = vec![kind().into()];
        let tools = calls::TOOLS.iter().filter_map(|tool| ToolName::parse(tool.as_bytes()).ok());
        config.policy.allow(&kind(), tools);
        config.caches = CacheScope::None;
        config.call_logs = CallLogRetention::SessionOnly;
        config.history = None;
        let pids = match &self.backend {
            SidecarBackend::Local | SidecarBackend::Pod(_) => None,
            SidecarBackend::Containers(containers) => containers.limits.pids,
        };
        config.backend = self.backend;
        let session = Session::start(config).await?;
        let calls = Calls::of(&session, shim.path(), workspace, pids);
        // This thread serves the session, so the calls are made on another one.
        let measured = tokio::task::spawn_blocking(move || calls.measure()).await;
        session.close().await;
        measured.map_err(|_| TrialError::Lost)
    }
}

/// Nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// There is no shim.
    #[error("cannot measure without aifo-shim\nhint: see 'versions'")]
    NoShim,
    /// There is no directory for it.
    #[error("cannot create a directory to measure in: {0}\nhint: set TMPDIR to another")]
    NoWorkspace(io::Error),
    /// The session did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Its calls were cut off.
    #[error("trial calls did not complete\nhint: see the messages above")]
    Lost,
}
