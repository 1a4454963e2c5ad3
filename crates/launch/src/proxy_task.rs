//! A proxy that serves while its owner does other things.

use aifo_proxy::{Listener, Proxy};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// It serves until it is told to stop, or this is dropped.
#[derive(Debug)]
pub(crate) struct ProxyTask {
    stop: oneshot::Sender<()>,
    proxy: JoinHandle<()>,
}

impl ProxyTask {
    pub(crate) fn start(proxy: Proxy, listener: Listener) -> Self {
        let (stop, stopped) = oneshot::channel();
        let proxy = tokio::spawn(async move {
            // A sender that was dropped is an owner that was dropped.
            let stopped = async { drop(stopped.await) };
            proxy.serve(listener, stopped).await;
        });
        ProxyTask { stop, proxy }
    }

    /// Lets nobody in any more, and returns when everybody has been told their ending.
    pub(crate) async fn stop(self) {
        // The proxy only fails to hear it if it has ended already.
        let _ = self.stop.send(());
        if let Err(error) = self.proxy.await {
            tracing::error!(%error, "the proxy failed");
        }
    }
}
