//! The host that serves a workspace's files and terminals to an agent (`spec/acp-hosts.md`).

use std::sync::Arc;

use aifo_acp::{ClientCapabilities, RpcError, code};
use serde_json::Value;

use crate::files::Files;
use crate::host::{CallFuture, EndFuture, Host};
use crate::terminals::Terminals;

/// Serves files and terminals to one agent.
#[derive(Debug)]
pub struct WorkspaceHost {
    /// Serves `fs/*`.
    pub files: Arc<Files>,
    /// Serves `terminal/*`.
    pub terminals: Terminals,
    /// The methods that are declared to the agent.
    pub capabilities: ClientCapabilities,
}

impl Host for WorkspaceHost {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    fn call(self: Arc<Self>, method: String, params: Value) -> CallFuture {
        Box::pin(async move {
            let not_found = || {
                RpcError::new(code::METHOD_NOT_FOUND, format!("method '{method}' is not served"))
            };
            if let Some(rest) = method.strip_prefix("fs/") {
                let files = Arc::clone(&self.files);
                return match rest {
                    "read_text_file" => on_disk(move || files.read(&params)).await,
                    "write_text_file" => on_disk(move || files.write(&params)).await,
                    _ => Err(not_found()),
                };
            }
            let terminals = &self.terminals;
            match method.as_str() {
                "terminal/create" => terminals.create(&params),
                "terminal/output" => terminals.output(&params),
                "terminal/wait_for_exit" => terminals.wait_for_exit(&params).await,
                "terminal/kill" => terminals.kill(&params),
                "terminal/release" => terminals.release(&params).await,
                _ => Err(not_found()),
            }
        })
    }

    fn end(self: Arc<Self>) -> EndFuture {
        Box::pin(async move { self.terminals.end_all().await })
    }
}

/// Runs blocking file I/O on another thread.
async fn on_disk(
    work: impl FnOnce() -> Result<Value, RpcError> + Send + 'static,
) -> Result<Value, RpcError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(RpcError::new(code::INTERNAL, "internal error while serving the file"))
    })
}
