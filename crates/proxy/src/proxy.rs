//! The accept loop and the shutdown.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use aifo_process::give_back_free_pages;
use aifo_sidecar::Fleet;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use crate::budget::Budget;
use crate::config::ProxyConfig;
use crate::connection;
use crate::in_place::MAX_WATCHED;
use crate::listener::Listener;
use crate::pending::PendingConnections;
use crate::registry::Registry;
use crate::spool::SpoolSpace;
use crate::state::ProxyState;

/// A proxy in front of a fleet of sidecars.
#[derive(Debug)]
pub struct Proxy {
    state: Arc<ProxyState>,
}

impl Proxy {
    /// Returns a proxy without clients.
    pub fn new(config: ProxyConfig, fleet: Arc<Fleet>) -> Self {
        let registry = Arc::new(Registry::new(config.limits.max_executions));
        let pending = Arc::new(PendingConnections::new(config.limits.max_waiting));
        let shutdown = watch::Sender::new(false);
        let memory = Arc::new(Budget::new(config.limits.max_memory));
        let spool = Arc::new(SpoolSpace::new(&config.spool_dir, config.limits.max_spool));
        let watched = Arc::new(Semaphore::new(MAX_WATCHED));
        let state =
            ProxyState { config, fleet, registry, pending, memory, spool, watched, shutdown };
        Proxy { state: Arc::new(state) }
    }

    /// Serves clients until `stop` is ready. Then closes the listener, ends every running tool by
    /// signal escalation, and returns when each client has its response. Does not stop the sidecars.
    pub async fn serve(&self, listener: Listener, stop: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        // At once, since the heap was last given back.
        let mut most = 0;
        loop {
            most = most.max(connections.len());
            let is_quiet = most >= MANY && connections.is_empty();
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok(client) => {
                        let served = connection::serve(Arc::clone(&self.state), client);
                        if let Some(unfinished) = begin(Box::pin(served)).await {
                            connections.spawn(unfinished);
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(ended) = connections.join_next() => log_panic(ended),
                () = tokio::time::sleep(QUIET), if is_quiet => {
                    give_back_free_pages();
                    most = 0;
                }
            }
        }
        drop(listener);
        self.state.shutdown.send_replace(true);
        let all_closed = async {
            while let Some(ended) = connections.join_next().await {
                log_panic(ended);
            }
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, all_closed).await.is_err() {
            tracing::warn!("timed out sending the last responses to some clients");
        }
    }
}

/// Polls a new connection once. Most requests arrive with their connection: their tool is started at
/// once, without the way through the scheduler. As in a task, a panic ends this connection only.
async fn begin<F: Future<Output = ()> + Send>(mut served: Pin<Box<F>>) -> Option<Pin<Box<F>>> {
    let polled = poll_fn(|context| {
        let poll = AssertUnwindSafe(|| served.as_mut().poll(context));
        Poll::Ready(catch_unwind(poll))
    });
    match polled.await {
        Ok(Poll::Pending) => Some(served),
        Ok(Poll::Ready(())) => None,
        Err(_) => {
            tracing::error!("a connection failed: it panicked");
            None
        }
    }
}

/// After this many connections at once the heap has free pages between blocks in use.
const MANY: usize = 16;
/// The time without a connection before the system gets them.
const QUIET: Duration = Duration::from_secs(1);

/// Pause after a failed `accept`, for example with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time for clients to take their responses: the 3 s of the signal escalation, and a margin.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection failed");
    }
}
