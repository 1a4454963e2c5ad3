//! The server of an agent's requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use aifo_acp::{ClientCapabilities, RpcError, code};
use serde_json::Value;

/// Serves `fs/*` and `terminal/*`, each request in a task of its own.
pub trait Host: Send + Sync + 'static {
    /// Returns the served methods, which are declared to the agent and never change.
    fn capabilities(&self) -> ClientCapabilities;

    /// Serves one request of a served method.
    fn call(self: Arc<Self>, method: String, params: Value) -> CallFuture;

    /// Ends everything that still runs for the agent, which has ended.
    fn end(self: Arc<Self>) -> EndFuture {
        Box::pin(std::future::ready(()))
    }
}

/// A running request. May be dropped before it completes.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;

/// The end of a host.
pub type EndFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A host that serves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    fn call(self: Arc<Self>, method: String, _: Value) -> CallFuture {
        Box::pin(async move {
            Err(RpcError::new(code::METHOD_NOT_FOUND, format!("no method '{method}'")))
        })
    }
}
