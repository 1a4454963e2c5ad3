//! The accept loop, and what all connections share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aifo_policy::{Forwarding, NotifyRules, Policy};
use aifo_sidecar::Fleet;
use aifo_types::{ExecId, Refusal, Token};
use aifo_wire::{Limits, encode_no_content, encode_refusal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::fd_passing::SharedDirectories;
use crate::listener::Listener;
use crate::pending::PendingConnections;
use crate::record::CallLog;
use crate::registry::Registry;
use crate::request::{ClientCall, RequestFailure, Unread, read_call};
use crate::running_table::RunningTable;
use crate::{attached, exec, notify, signal};

/// What a proxy is told by whoever owns the session.
#[derive(Debug)]
pub struct ProxyConfig {
    /// What clients have to present.
    pub token: Token,
    /// Which tools run, and where.
    pub policy: Policy,
    /// Which notifications may be run on the host.
    pub notify: NotifyRules,
    /// Who is told of every call.
    pub call_log: CallLog,
    /// Where it stands what runs.
    pub running_table: RunningTable,
    /// What clients may send, and how many may run.
    pub limits: Limits,
    /// How long a tool may run, or `None` for as long as it likes.
    pub max_runtime: Option<Duration>,
    /// Whether buffered output is set off from what a user interface draws around it.
    pub transcript: Transcript,
    /// A directory for output that is too large for memory; on disk rather than in it.
    pub spool_dir: PathBuf,
    /// Which of a caller's variables its tool gets.
    pub forwarding: Forwarding,
    /// Where agent and tools share files.
    pub shared_directories: SharedDirectories,
    /// What every call executes, in place of what is found in the sidecar's PATH: for a proxy that
    /// stands before one program. An absolute path where the sidecar is.
    pub program: Option<PathBuf>,
}

/// How the body of a version 1 answer is framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transcript {
    /// The tool's bytes, nothing else.
    #[default]
    Plain,
    /// A newline before and after, as verbose mode has it.
    OnOwnLines,
}

/// A proxy in front of a fleet of sidecars.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ProxyConfig,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) registry: Arc<Registry>,
    pending: Arc<PendingConnections>,
    pub(crate) shutdown: watch::Sender<bool>,
}

impl Proxy {
    /// A proxy that has no clients yet.
    pub fn new(config: ProxyConfig, fleet: Arc<Fleet>) -> Self {
        let registry = Arc::new(Registry::new(config.limits.max_executions));
        let pending = Arc::new(PendingConnections::new(config.limits.max_waiting));
        let shutdown = watch::Sender::new(false);
        let shared = Shared { config, fleet, registry, pending, shutdown };
        Proxy { shared: Arc::new(shared) }
    }

    /// Serves clients until `stop` is ready. Then nobody is let in any more, every running tool is
    /// ended by the ladder, and each client is told its tool's ending before this returns. The
    /// sidecars are left to their owner.
    pub async fn serve(&self, listener: Listener, stop: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok(client) => {
                        connections.spawn(Arc::clone(&self.shared).serve_connection(client));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(ended) = connections.join_next() => log_panic(ended),
            }
        }
        drop(listener);
        self.shared.shutdown.send_replace(true);
        let all_closed = async {
            while let Some(ended) = connections.join_next().await {
                log_panic(ended);
            }
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, all_closed).await.is_err() {
            tracing::warn!("some clients did not take their answers in time");
        }
    }
}

/// After an error of `accept`, such as too many open files: time for some to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long clients have to take their answers: the ladder's 3 s, and some.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

impl Shared {
    async fn serve_connection(self: Arc<Self>, client: Client) {
        let limits = &self.config.limits;
        let call = {
            let mut guard = self.pending.add();
            let new_id = || aifo_process::random_bits().map(ExecId::from_random);
            tokio::select! {
                biased;
                call = read_call(&client, &self.config.token, limits, new_id) => call,
                () = guard.evicted() => {
                    Err(RequestFailure::Refused(Refusal::RequestTimeout, Unread::Rest))
                }
            }
        };
        let (client, refusal, echo, unread) = match call {
            Err(RequestFailure::Disconnected) => return,
            Err(RequestFailure::Refused(refusal, unread)) => (client, refusal, None, unread),
            Ok(ClientCall::Exec { request, echo, mode }) => {
                match exec::run(&self, &client, request, echo.clone(), mode).await {
                    Ok(()) => return client.close(limits).await,
                    Err(refusal) => (client, refusal, echo, Unread::Nothing),
                }
            }
            Ok(ClientCall::Attach { request, echo, upgrade }) => {
                let parked = client.park();
                match attached::run(&self, &parked, &request, echo.as_ref(), *upgrade).await {
                    Ok(()) => return,
                    Err(refusal) => match parked.unpark() {
                        Ok(client) => (client, refusal, echo, Unread::Nothing),
                        Err(_) => return,
                    },
                }
            }
            Ok(ClientCall::Notify { id, command, args, attendance }) => {
                match notify::run(&self, &client, id, &command, &args, attendance).await {
                    Ok(()) => return client.close(limits).await,
                    Err(refusal) => (client, refusal, None, Unread::Nothing),
                }
            }
            Ok(ClientCall::Signal { id, signal }) => {
                match signal::deliver(&self.registry, &id, signal).await {
                    Ok(()) => {
                        let mut answer = Vec::new();
                        encode_no_content(&mut answer);
                        // Delivered, whether or not anybody hears of it.
                        let _ = client.socket.send_all(&answer).await;
                        return client.close(limits).await;
                    }
                    Err(refusal) => (client, refusal, None, Unread::Nothing),
                }
            }
        };
        tracing::debug!(status = refusal.status().0, reason = refusal.body().trim_end(), "refused");
        let mut answer = Vec::new();
        encode_refusal(&mut answer, &refusal, echo.as_ref());
        if client.socket.send_all(&answer).await.is_err() {
            return;
        }
        match unread {
            Unread::Nothing => client.close(limits).await,
            Unread::Rest => client.linger(limits).await,
        }
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection failed");
    }
}
