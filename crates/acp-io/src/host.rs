//! Who serves what an agent asks for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use aifo_acp::{ClientCapabilities, RpcError, code};
use serde_json::Value;

/// ClientCapabilities `fs/*` and `terminal/*`, each request in a task of its own.
pub trait Host: Send + Sync + 'static {
    /// What is served. It is what is declared, so it never changes.
    fn capabilities(&self) -> ClientCapabilities;

    /// ClientCapabilities one request, of a method that is served.
    fn call(self: Arc<Self>, method: String, params: Value) -> CallFuture;

    /// Ends whatever still runs for the agent, which has gone.
    fn end(self: Arc<Self>) -> EndFuture {
        Box::pin(std::future::ready(()))
    }
}

/// What comes of a request. It may be dropped before its end, when nobody waits for it any more.
pub type CallFuture = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;

/// What is waited for at the end.
pub type EndFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// ClientCapabilities nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    fn call(self: Arc<Self>, method: String, _: Value) -> CallFuture {
        Box::pin(async move {
            Err(RpcError::new(code::METHOD_NOT_FOUND, format!("nobody serves '{method}'")))
        })
    }
}
