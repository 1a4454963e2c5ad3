//! Tasks that outlive their request.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Relayed WebSockets, and responses that are read to their end after the agent has left.
#[derive(Debug, Default)]
pub(crate) struct Background(Mutex<JoinSet<()>>);

/// Tasks at once: an agent has as many connections.
pub(crate) const MAX_TASKS: usize = 256;

impl Background {
    /// Starts a task, or drops it if there are too many.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        if let Ok(runtime) = Handle::try_current()
            && tasks.len() < MAX_TASKS
        {
            tasks.spawn_on(task, &runtime);
        }
    }

    /// Ends all tasks.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}
