//! The state shared by all connections of a proxy.

use std::sync::Arc;

use aifo_sidecar::Fleet;
use aifo_types::{Refusal, ToolName};
use tokio::sync::{Semaphore, watch};

use crate::budget::Budget;
use crate::config::ProxyConfig;
use crate::pending::PendingConnections;
use crate::registry::Registry;
use crate::spool::SpoolSpace;

#[derive(Debug)]
pub(crate) struct ProxyState {
    pub(crate) config: ProxyConfig,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) pending: Arc<PendingConnections>,
    /// The memory of requests and buffered output.
    pub(crate) memory: Arc<Budget>,
    /// The version 1 responses on disk.
    pub(crate) spool: Arc<SpoolSpace>,
    /// Room for programs in place whose end is awaited.
    pub(crate) watched: Arc<Semaphore>,
    pub(crate) shutdown: watch::Sender<bool>,
}

impl ProxyState {
    /// Returns the refusal for a tool that no sidecar of the session has installed.
    pub(crate) fn unavailable(&self, tool: &ToolName) -> Refusal {
        self.config.policy.unavailable(tool, self.fleet.offered())
    }
}
