//! A proxy that serves in a task of its own.

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::listener::Listener;
use crate::proxy::Proxy;

/// Handle of the task, which ends on [`stop`](Self::stop) or on drop.
#[derive(Debug)]
pub struct ProxyTask {
    stop: oneshot::Sender<()>,
    proxy: JoinHandle<()>,
}

impl ProxyTask {
    /// Starts the task. Must be called on a tokio runtime.
    pub fn start(proxy: Proxy, listener: Listener) -> Self {
        let (stop, stopped) = oneshot::channel();
        let proxy = tokio::spawn(async move {
            // A dropped sender also means stop.
            let stopped = async { drop(stopped.await) };
            proxy.serve(listener, stopped).await;
        });
        ProxyTask { stop, proxy }
    }

    /// Refuses new clients, and returns when all clients have received their results.
    pub async fn stop(self) {
        // Fails only if the proxy has ended.
        let _ = self.stop.send(());
        if let Err(error) = self.proxy.await {
            tracing::error!(%error, "the proxy failed");
        }
    }
}
