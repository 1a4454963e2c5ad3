//! Byte budgets that all connections of a proxy share (`spec/toolexec.md#memory`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A number of bytes that is divided among connections.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    used: Mutex<usize>,
    freed: Notify,
}

/// A part of a budget, returned on drop.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

/// The part of a budget that shares may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    All,
    /// Leaves the other half to uses that cannot do with less.
    Half,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Budget { max, used: Mutex::default(), freed: Notify::new() }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Returns a share without bytes.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }

    /// Waits until bytes have been returned. Register it, with `enable`, before an attempt.
    pub(crate) fn freed(&self) -> tokio::sync::futures::Notified<'_> {
        self.freed.notified()
    }

    fn used(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Changes the share to `bytes`. `false`, without a change, if the budget lacks the difference.
    pub(crate) fn try_resize(&mut self, bytes: usize, part: Use) -> bool {
        let max = match part {
            Use::All => self.budget.max,
            Use::Half => self.budget.max / 2,
        };
        {
            let mut used = self.budget.used();
            let others = used.saturating_sub(self.bytes);
            let total = others.saturating_add(bytes);
            if bytes > self.bytes && total > max {
                return false;
            }
            *used = total;
        }
        if bytes < self.bytes {
            self.budget.freed.notify_waiters();
        }
        self.bytes = bytes;
        true
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.try_resize(0, Use::All);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_budget() {
        let budget = Arc::new(Budget::new(100));
        let (mut first, mut second) = (budget.share(), budget.share());
        assert!(first.try_resize(60, Use::All));
        assert!(!second.try_resize(41, Use::All));
        assert!(second.try_resize(40, Use::All));
        assert!(!first.try_resize(61, Use::All), "the difference counts");
        assert_eq!((first.bytes(), second.bytes()), (60, 40), "a failure changes nothing");
        assert!(first.try_resize(10, Use::Half), "shrinking always works");
        assert!(!first.try_resize(11, Use::Half), "51 of 50");
        assert!(first.try_resize(11, Use::All));
        drop(second);
        assert!(first.try_resize(50, Use::Half));
        drop(first);
        assert_eq!(*budget.used(), 0);
    }
}
