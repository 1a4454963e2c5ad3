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
    evicted: oneshot::Receiver<()>,
}

impl PendingConnections {
    pub(crate) fn new(max: usize) -> Self {
        PendingConnections { max, pending: Mutex::default() }
    }

    pub(crate) fn add(self: &Arc<Self>) -> PendingGuard {
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
        PendingGuard { connections: Arc::clone(self), number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingGuard {
    pub(crate) async fn evicted(&mut self) {
        if (&mut self.evicted).await.is_err() {
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

    #[test]
    fn the_oldest_connection_is_evicted_first() {
        let connections = Arc::new(PendingConnections::new(2));
        let mut first = connections.add();
        let mut second = connections.add();
        assert!(first.evicted.try_recv().is_err());
        let mut third = connections.add();
        assert!(first.evicted.try_recv().is_ok());
        drop(second);
        let fourth = connections.add();
        assert!(third.evicted.try_recv().is_err(), "there was room");
        drop((first, third, fourth));
        assert!(connections.lock().waiting.is_empty());
        second = connections.add();
        assert!(second.evicted.try_recv().is_err());
    }
}
