//! A thread for the connections of network stacks.
//!
//! Bulk of a connection keeps its thread busy, and would delay the tool calls of the launcher's thread.

use std::convert::Infallible;
use std::future::Future;
use std::thread;

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot::{self, Sender},
    task::JoinSet,
};

/// A thread with a tokio runtime. Dropping it ends the thread and every future that it runs.
#[derive(Debug)]
pub(crate) struct GatewayThread {
    /// `None` if the thread could not be started.
    handle: Option<Handle>,
    _stop: Sender<Infallible>,
}

impl GatewayThread {
    pub(crate) fn start() -> Self {
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let started = Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let handle = runtime.handle().clone();
            let run = move || drop(runtime.block_on(stopped));
            thread::Builder::new().name("network".to_owned()).spawn(run)?;
            Ok(handle)
        });
        if let Err(error) = &started {
            tracing::info!("connections have no thread of their own: {error}");
        }
        GatewayThread { handle: started.ok(), _stop: stop }
    }

    /// Runs a future on the thread; without one, on the caller's. Dropping the result ends it.
    pub(crate) fn run<F>(&self, future: F) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = self.handle.clone();
        async move {
            let Some(handle) = handle else { return future.await };
            let mut tasks = JoinSet::new();
            tasks.spawn_on(future, &handle);
            while tasks.join_next().await.is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_future_runs_on_the_thread_until_it_is_dropped() {
        let gateway = GatewayThread::start();
        let (sender, mut names) = mpsc::unbounded_channel();
        let run = |sender: mpsc::UnboundedSender<Option<String>>| async move {
            let _ = sender.send(thread::current().name().map(str::to_owned));
            tokio::time::sleep(Duration::from_secs(600)).await;
        };
        let running = tokio::spawn(gateway.run(run(sender.clone())));
        assert_eq!(names.recv().await, Some(Some("network".to_owned())));
        running.abort();
        let still = tokio::spawn(gateway.run(run(sender)));
        assert_eq!(names.recv().await, Some(Some("network".to_owned())));
        // The first future's sender is dropped as well, and the second one's by the end of the thread.
        drop(gateway);
        assert_eq!(names.recv().await, None);
        still.await.unwrap();
    }
}
