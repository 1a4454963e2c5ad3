//! Requests that the host is serving.

use std::collections::HashMap;

use aifo_acp::{Id, RpcError, code};
use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};

use crate::host::CallFuture;

/// Running requests, each in a task of its own.
#[derive(Debug, Default)]
pub(crate) struct HostCalls {
    tasks: JoinSet<(Id, Result<Value, RpcError>)>,
    running: HashMap<Id, AbortHandle>,
}

impl HostCalls {
    pub(crate) fn start(&mut self, id: Id, call: CallFuture) {
        let name = id.clone();
        let task = self.tasks.spawn(async move { (id, call.await) });
        self.running.insert(name, task);
    }

    /// Aborts a request. Returns false if it is not running.
    pub(crate) fn stop(&mut self, id: &Id) -> bool {
        self.running.remove(id).inspect(AbortHandle::abort).is_some()
    }

    /// Returns the outcome of the next completed request. Pending while none runs. Cancel-safe.
    pub(crate) async fn next(&mut self) -> (Id, Result<Value, RpcError>) {
        loop {
            match self.tasks.join_next_with_id().await {
                Some(Ok((_, answer))) => return answer,
                Some(Err(failed)) => {
                    let is_it = |(_, task): &(&Id, &AbortHandle)| task.id() == failed.id();
                    let id = self.running.iter().find(is_it).map(|(id, _)| id.clone());
                    // Aborted by `stop`.
                    let Some(id) = id else { continue };
                    let failed = RpcError::new(code::INTERNAL, "the request handler failed");
                    return (id, Err(failed));
                }
                None => return std::future::pending().await,
            }
        }
    }
}
