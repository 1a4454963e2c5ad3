//! The memory of a request (`spec/toolexec.md#memory`).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aifo_types::Refusal;
use tokio::time::{Instant, timeout_at};

use crate::budget::{Share, Use};
use crate::pending::PendingGuard;

/// How long a request waits for memory before it evicts others, and how long afterwards.
const MEMORY_WAIT: Duration = Duration::from_millis(250);

/// Memory per string besides its bytes: its place in a vector that may have twice the capacity, and the
/// allocator's smallest block.
const STRING_MEMORY: usize = 80;

/// Enlarges the share of a request to `bytes`. If the budget lacks them, waits for other requests,
/// which take a millisecond; then evicts the oldest that are still being read, except that of `guard`.
/// Errors: 503.
pub(crate) async fn reserve(
    share: &mut Share,
    bytes: usize,
    guard: &PendingGuard,
) -> Result<(), Refusal> {
    if bytes <= share.bytes() {
        return Ok(());
    }
    let budget = Arc::clone(share.budget());
    let evict_at = Instant::now() + MEMORY_WAIT;
    loop {
        let mut freed = pin!(budget.freed());
        // Registers before the attempt, so that no notification is lost.
        freed.as_mut().enable();
        if share.try_resize(bytes, Use::All) {
            return Ok(());
        }
        let evicts = Instant::now() >= evict_at;
        if evicts {
            guard.connections().evict_oldest_except(guard);
        }
        let until = if evicts { evict_at + MEMORY_WAIT } else { evict_at };
        let fits = bytes <= budget.max();
        let was_freed = fits && timeout_at(until, freed).await.is_ok();
        if !fits || (evicts && !was_freed) {
            return Err(Refusal::OutOfMemory { limit_mib: budget.max() / (1024 * 1024) });
        }
    }
}

/// Returns the memory of a parsed body with this number of strings, and of the frame that passes it to
/// the runner, in bytes.
pub(crate) fn parsed_memory(body: &[u8], strings: usize) -> usize {
    strings.saturating_mul(STRING_MEMORY).saturating_add(body.len().saturating_mul(2))
}

/// Returns the number of pairs in a form.
pub(crate) fn count_pairs(form: &[u8]) -> usize {
    form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::pending::PendingConnections;

    #[tokio::test]
    async fn a_request_waits_then_evicts_and_is_then_refused() {
        let budget = Arc::new(Budget::new(100));
        let pending = Arc::new(PendingConnections::new(9));
        let ((oldest, mut eviction), (guard, mut own)) = (pending.add(), pending.add());
        let (mut held, mut share) = (budget.share(), budget.share());
        assert!(held.try_resize(60, Use::All));

        assert!(reserve(&mut share, 40, &guard).await.is_ok());
        assert!(reserve(&mut share, 7, &guard).await.is_ok(), "a share does not shrink");
        assert_eq!(share.bytes(), 40);
        let refused = Refusal::OutOfMemory { limit_mib: 0 };
        assert_eq!(reserve(&mut share, 101, &guard).await, Err(refused.clone()), "never fits");

        // The oldest connection returns its share when it is evicted.
        let evicted = async {
            eviction.evicted().await;
            drop((oldest, held));
        };
        let (reserved, ()) = tokio::join!(reserve(&mut share, 100, &guard), evicted);
        assert_eq!((reserved, share.bytes()), (Ok(()), 100));

        // No other connection is left to evict.
        let mut other = budget.share();
        tokio::select! {
            refusal = reserve(&mut other, 1, &guard) => assert_eq!(refusal, Err(refused)),
            () = own.evicted() => panic!("a request evicted itself"),
        }
    }
}
