//! The state shared by all connections of a proxy.

use std::sync::Arc;

use aifo_sidecar::Fleet;
use tokio::sync::watch;

use crate::config::ProxyConfig;
use crate::pending::PendingConnections;
use crate::registry::Registry;

#[derive(Debug)]
pub(crate) struct ProxyState {
    pub(crate) config: ProxyConfig,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) pending: Arc<PendingConnections>,
    pub(crate) shutdown: watch::Sender<bool>,
}
