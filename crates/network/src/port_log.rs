//! Connections to ports of a session, in the log of connections (`spec/log.md#connections`): mirrors, ports
//! of this machine and of the agent, published ports.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_egress::{ByteCounts, Gateway};

use crate::connection_file::{
    ConnectionOutcome, ConnectionState, LoggedConnection, PortUse, now_ms,
};
use crate::connection_log::ConnectionLog;

/// Records connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PortLog {
    log: Arc<Mutex<ConnectionLog>>,
    /// Numbers the connections, together with those to names.
    gateway: Gateway,
}

/// A port whose connections are relayed.
#[derive(Clone, Debug)]
pub(crate) struct RelayedPort {
    /// The stack of the clients, or [`HOST`].
    pub(crate) stack: String,
    pub(crate) port: u16,
    pub(crate) port_use: PortUse,
    pub(crate) log: PortLog,
}

/// A connection record. Dropping it records the end.
#[derive(Debug)]
pub(crate) struct PortRecord {
    log: PortLog,
    record: LoggedConnection,
    pub(crate) counts: ByteCounts,
}

/// This machine, as the stack of clients or of a server.
pub(crate) const HOST: &str = "host";

impl PortLog {
    pub(crate) fn new(log: Arc<Mutex<ConnectionLog>>, gateway: Gateway) -> Self {
        PortLog { log, gateway }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RelayedPort {
    /// Begins a connection record.
    pub(crate) fn record(&self) -> PortRecord {
        let record = LoggedConnection {
            time: now_ms(),
            connection: self.log.gateway.next_id(),
            stack: self.stack.clone(),
            name: "localhost".to_owned(),
            port: Some(self.port),
            verdict: ConnectionOutcome::Allowed,
            relay: Some(self.port_use),
            ..LoggedConnection::default()
        };
        let record = self.log.lock().with_caller(record);
        PortRecord { log: self.log.clone(), record, counts: ByteCounts::default() }
    }

    /// Records a connection to another address than localhost.
    pub(crate) fn refuse(&self, dialled: SocketAddr) {
        let mut refused = self.record();
        refused.record.name = dialled.ip().to_string();
        refused.record.verdict = ConnectionOutcome::Refused;
        refused.fail("no name has this address");
    }
}

impl PortRecord {
    /// Records that the server accepted.
    pub(crate) fn connected(&mut self, to: &str) {
        self.record.to = Some(to.to_owned());
        self.record.time = now_ms();
        self.record.state = ConnectionState::Open;
        self.log.lock().append(&self.record);
    }

    /// Sets the cause of its end.
    pub(crate) fn fail(&mut self, cause: impl fmt::Display) {
        self.record.error = Some(cause.to_string());
    }
}

impl Drop for PortRecord {
    fn drop(&mut self) {
        let record = &mut self.record;
        record.state = ConnectionState::Closed;
        (record.sent, record.received) = (self.counts.sent(), self.counts.received());
        record.wall_ms = now_ms().saturating_sub(record.time);
        self.log.lock().append(record);
    }
}

impl fmt::Debug for PortLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortLog").finish_non_exhaustive()
    }
}
