//! The sidecars of one session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aifo_types::Kind;
use tokio::sync::watch;

use crate::backend::Backend;
use crate::error::SidecarError;
use crate::lease::Lease;
use crate::progress::Reporter;
use crate::slot::{RunningKinds, SidecarSlot};

/// All sidecars of a session, by kind.
pub struct Fleet {
    kinds: Vec<Kind>,
    slots: Vec<Arc<SidecarSlot>>,
    /// What runs on the host itself.
    host: Arc<SidecarSlot>,
    startup: Startup,
    running: Arc<RunningKinds>,
}

/// When sidecars are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup {
    /// All of them, before the first call.
    AtOnce,
    /// Each by the first call that needs it.
    OnDemand {
        /// How long one may have nothing to do until it is stopped; `None` for ever. What a tool left in
        /// the background is something to do.
        idle_stop: Option<Duration>,
    },
}

impl Fleet {
    /// Offers a sidecar of every kind, and starts them all at once if they are to be there at once. If
    /// one fails then, the others are taken down again. `host` is for what runs on the host itself; it
    /// starts when it is first needed.
    pub async fn start(
        backend: Box<dyn Backend>,
        host: Box<dyn Backend>,
        kinds: Vec<Kind>,
        startup: Startup,
        reporter: Reporter,
    ) -> Result<Self, Arc<SidecarError>> {
        let backend: Arc<dyn Backend> = backend.into();
        let running = Arc::new(RunningKinds::default());
        let idle_stop = match startup {
            Startup::AtOnce => None,
            Startup::OnDemand { idle_stop } => idle_stop,
        };
        let slots = kinds.iter().map(|kind| {
            let (backend, running) = (Arc::clone(&backend), Arc::clone(&running));
            SidecarSlot::new(kind.clone(), backend, reporter.clone(), idle_stop, running)
        });
        let slots: Vec<_> = slots.collect();
        // It is no sidecar, so nobody is told of it.
        let host =
            SidecarSlot::new(Kind::host(), host.into(), Reporter::default(), None, Arc::default());
        let fleet = Fleet { kinds, slots, host, startup, running };
        if startup == Startup::AtOnce {
            fleet.start_all().await?;
        }
        Ok(fleet)
    }

    async fn start_all(&self) -> Result<(), Arc<SidecarError>> {
        let starting: Vec<_> = self.slots.iter().map(SidecarSlot::begin_start).collect();
        let mut failure = None;
        for started in starting {
            if let Err(error) = started.await {
                failure = Some(error);
            }
        }
        match failure {
            None => Ok(()),
            Some(error) => {
                self.stop().await;
                Err(error)
            }
        }
    }

    /// The kinds of this session, whether or not they run.
    pub fn offered(&self) -> &[Kind] {
        &self.kinds
    }

    /// When they are started.
    pub fn startup(&self) -> Startup {
        self.startup
    }

    /// Those that run at the moment, and a word whenever that changes.
    pub fn running(&self) -> watch::Receiver<BTreeSet<Kind>> {
        self.running.subscribe()
    }

    /// The sidecar of a kind if it is up, without any wait.
    pub fn ready(&self, kind: &Kind) -> Option<Lease> {
        self.slot(kind)?.ready()
    }

    /// The sidecar of a kind, started if it has to be: once for all who wait for it, and they are all
    /// told the same if that fails. The next one tries again. A kind on its way up holds nobody up who
    /// needs another.
    pub async fn lease(&self, kind: &Kind) -> Result<Lease, Arc<SidecarError>> {
        match self.slot(kind) {
            Some(slot) => slot.lease().await,
            None => Err(Arc::new(SidecarError::NotRunning(kind.clone()))),
        }
    }

    /// The runner on the host itself, of the kind `host`, which is no sidecar's.
    pub async fn host(&self) -> Result<Lease, Arc<SidecarError>> {
        self.host.lease().await
    }

    /// Takes all sidecars down and returns when nothing of them is left.
    pub async fn stop(&self) {
        let slots = self.slots.iter().chain([&self.host]).map(Arc::clone);
        let closing = slots.map(|slot| tokio::spawn(async move { slot.close().await }));
        for closed in closing.collect::<Vec<_>>() {
            // A task that only waits has nothing to panic about.
            let _ = closed.await;
        }
    }

    fn slot(&self, kind: &Kind) -> Option<&Arc<SidecarSlot>> {
        self.slots.iter().find(|slot| slot.kind() == kind)
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}
