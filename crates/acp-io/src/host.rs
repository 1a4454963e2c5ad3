//! Who serves what an agent asks for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use aifo_acp::{RpcError, Serves, code};
use serde_json::Value;

/// Serves `fs/*` and `terminal/*`, each request in a task of its own.
pub trait Host: Send + Sync + 'static {
    /// What is served. It is what is declared, so it never changes.
    fn serves(&self) -> Serves;

    /// Serves one request, of a method that is served.
    fn call(self: Arc<Self>, method: String, params: Value) -> Served;

    /// Ends whatever still runs for the agent, which has gone.
    fn end(self: Arc<Self>) -> Ended {
        Box::pin(std::future::ready(()))
    }
}

/// What comes of a request. It may be dropped before its end, when nobody waits for it any more.
pub type Served = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;

/// What is waited for at the end.
pub type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn serves(&self) -> Serves {
        Serves::default()
    }

    fn call(self: Arc<Self>, method: String, _: Value) -> Served {
        Box::pin(async move {
            Err(RpcError::new(code::METHOD_NOT_FOUND, format!("nobody serves '{method}'")))
        })
    }
}
