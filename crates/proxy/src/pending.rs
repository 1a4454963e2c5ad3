//! Connections whose request is not complete.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A bounded set of connections whose requests are being read. A new connection evicts the oldest one
/// when the set is full: a proper request takes a millisecond, so only slow clients are evicted.
#[derive(Debug)]
pub(crate) struct PendingConnections {
    max: usize,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    last_number: u64,
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A connection in the set, removed on drop.
#[derive(Debug)]
pub(crate) struct PendingGuard {
    connections: Arc<PendingConnections>,
    number: u64,
}

/// Completes when a connection is evicted.
#[derive(Debug)]
pub(crate) struct Eviction(Option<oneshot::Receiver<()>>);

impl PendingConnections {
    pub(crate) fn new(max: usize) -> Self {
        PendingConnections { max, pending: Mutex::default() }
    }

    pub(crate) fn add(self: &Arc<Self>) -> (PendingGuard, Eviction) {
        let (evict, evicted) = oneshot::channel();
        let mut pending = self.lock();
        pending.last_number += 1;
        let number = pending.last_number;
        pending.waiting.push_back((number, evict));
        if pending.waiting.len() > self.max
            && let Some((_, oldest)) = pending.waiting.pop_front()
        {
            // Its task may be ending.
            let _ = oldest.send(());
        }
        (PendingGuard { connections: Arc::clone(self), number }, Eviction(Some(evicted)))
    }

    /// Evicts the oldest connection but that of `guard`.
    pub(crate) fn evict_oldest_except(&self, guard: &PendingGuard) {
        let mut pending = self.lock();
        let oldest = pending.waiting.iter().position(|(number, _)| *number != guard.number);
        if let Some((_, oldest)) = oldest.and_then(|at| pending.waiting.remove(at)) {
            // Its task may be ending.
            let _ = oldest.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingGuard {
    pub(crate) fn connections(&self) -> &PendingConnections {
        &self.connections
    }
}

impl Eviction {
    /// Waits until the connection is evicted; once only. Cancel-safe.
    pub(crate) async fn evicted(&mut self) {
        let evicted = match &mut self.0 {
            Some(evicted) => evicted.await,
            None => std::future::pending().await,
        };
        self.0 = None;
        if evicted.is_err() {
            // The set was dropped, so nothing evicts this connection.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.connections.lock().waiting.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted((_, eviction): &mut (PendingGuard, Eviction)) -> bool {
        eviction.0.as_mut().unwrap().try_recv().is_ok()
    }

    #[test]
    fn the_oldest_connection_is_evicted_first() {
        let connections = Arc::new(PendingConnections::new(2));
        let mut first = connections.add();
        let mut second = connections.add();
        assert!(!is_evicted(&mut first));
        let mut third = connections.add();
        assert!(is_evicted(&mut first));
        drop(second);
        let fourth = connections.add();
        assert!(!is_evicted(&mut third), "there was room");
        drop((first, third, fourth));
        assert!(connections.lock().waiting.is_empty());
        second = connections.add();
        assert!(!is_evicted(&mut second));
    }

    #[test]
    fn a_connection_evicts_the_oldest_other_one() {
        let connections = Arc::new(PendingConnections::new(9));
        let mut first = connections.add();
        let mut second = connections.add();
        let mut third = connections.add();
        connections.evict_oldest_except(&first.0);
        assert!(!is_evicted(&mut first) && is_evicted(&mut second) && !is_evicted(&mut third));
        connections.evict_oldest_except(&third.0);
        assert!(is_evicted(&mut first) && !is_evicted(&mut third));
        connections.evict_oldest_except(&third.0);
        assert!(!is_evicted(&mut third));
    }
}
