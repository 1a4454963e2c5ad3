//! The sidecars of one session.

use std::collections::HashMap;

use aifo_types::Kind;
use tokio::sync::Mutex;

use crate::backend::{Backend, SidecarError};
use crate::runner::Runner;

/// All sidecars of a session, by kind.
pub struct Fleet {
    backend: Box<dyn Backend>,
    /// What runs on the host itself.
    host: Box<dyn Backend>,
    kinds: Vec<Kind>,
    runners: Mutex<HashMap<Kind, Runner>>,
}

impl Fleet {
    /// Starts a sidecar of every kind, all at once. If one fails, the others are taken down again.
    /// `host` is for what runs on the host itself; it starts when it is first needed.
    pub async fn start(
        backend: Box<dyn Backend>,
        host: Box<dyn Backend>,
        kinds: Vec<Kind>,
    ) -> Result<Self, SidecarError> {
        let starting: Vec<_> =
            kinds.iter().map(|kind| tokio::spawn(backend.start(kind.clone()))).collect();
        let mut runners = HashMap::new();
        let mut failure = None;
        for (kind, started) in kinds.iter().zip(starting) {
            match started.await {
                Ok(Ok(runner)) => {
                    runners.insert(kind.clone(), runner);
                }
                Ok(Err(error)) => failure = Some(error),
                Err(panicked) => {
                    let source = std::io::Error::other(panicked);
                    failure = Some(SidecarError::Start { kind: kind.clone(), source });
                }
            }
        }
        let fleet = Fleet { backend, host, kinds, runners: Mutex::new(runners) };
        match failure {
            None => Ok(fleet),
            Some(error) => {
                fleet.stop().await;
                Err(error)
            }
        }
    }

    /// The kinds of this session.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The runner of a kind. One that was lost is started again: the calls it ran have failed
    /// already, and the next one deserves a sidecar.
    pub async fn runner(&self, kind: &Kind) -> Result<Runner, SidecarError> {
        if !self.kinds.contains(kind) {
            return Err(SidecarError::NotRunning(kind.clone()));
        }
        self.ensure(self.backend.as_ref(), kind).await
    }

    /// The runner on the host itself, of the kind `host`, which is no sidecar's.
    pub async fn host(&self) -> Result<Runner, SidecarError> {
        self.ensure(self.host.as_ref(), &Kind::host()).await
    }

    async fn ensure(&self, backend: &dyn Backend, kind: &Kind) -> Result<Runner, SidecarError> {
        let mut runners = self.runners.lock().await;
        if let Some(runner) = runners.get(kind) {
            if !runner.is_lost() {
                return Ok(runner.clone());
            }
            tracing::warn!(%kind, "sidecar was lost, starting it again");
            // Until nothing of the old one is left.
            runner.close().await;
        }
        let runner = backend.start(kind.clone()).await?;
        runners.insert(kind.clone(), runner.clone());
        Ok(runner)
    }

    /// Takes all sidecars down and returns when nothing of them is left.
    pub async fn stop(&self) {
        let runners: Vec<_> = self.runners.lock().await.drain().collect();
        let closing = runners
            .into_iter()
            .map(|(_, runner)| tokio::spawn(async move { runner.close().await }));
        for closed in closing.collect::<Vec<_>>() {
            // A task that only waits has nothing to panic about.
            let _ = closed.await;
        }
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}
