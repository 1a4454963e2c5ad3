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
use crate::runner::Runner;
use crate::slot::{RunningKinds, SidecarSlot};

/// All sidecars of a session, by kind.
pub struct Fleet {
    kinds: Vec<Kind>,
    slots: Vec<Arc<SidecarSlot>>,
    /// The unconfined runner for the host.
    host: Arc<SidecarSlot>,
    startup: Startup,
    running: Arc<RunningKinds>,
}

/// When sidecars are started. By default all of them are, before the first call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// The kinds whose sidecar starts when a call first needs it.
    pub on_demand: BTreeSet<Kind>,
    /// The idle time after which such a sidecar is stopped; `None` for never. A sidecar with background
    /// processes is not idle.
    pub idle_stop: Option<Duration>,
}

impl Fleet {
    /// Returns the fleet of these kinds, after the start of the sidecars that are not started on demand; if one
    /// fails, stops the others. `host` starts the runner for the host when it is first needed.
    pub async fn start(
        backend: Box<dyn Backend>,
        host: Box<dyn Backend>,
        kinds: Vec<Kind>,
        startup: Startup,
        reporter: Reporter,
    ) -> Result<Self, Arc<SidecarError>> {
        let backend: Arc<dyn Backend> = backend.into();
        let running = Arc::new(RunningKinds::default());
        let slots = kinds.iter().map(|kind| {
            let (backend, running) = (Arc::clone(&backend), Arc::clone(&running));
            let idle_stop = startup.idle_stop.filter(|_| startup.on_demand.contains(kind));
            SidecarSlot::new(kind.clone(), backend, reporter.clone(), idle_stop, running)
        });
        let slots: Vec<_> = slots.collect();
        // Not a sidecar, so its events are not reported.
        let host =
            SidecarSlot::new(Kind::host(), host.into(), Reporter::default(), None, Arc::default());
        let fleet = Fleet { kinds, slots, host, startup, running };
        fleet.start_initial().await?;
        Ok(fleet)
    }

    async fn start_initial(&self) -> Result<(), Arc<SidecarError>> {
        let initial =
            self.slots.iter().filter(|slot| !self.startup.on_demand.contains(slot.kind()));
        let starting: Vec<_> = initial.map(SidecarSlot::begin_start).collect();
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

    /// Returns the kinds of this session, running or not.
    pub fn offered(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the kinds whose sidecar starts when a call first needs it.
    pub fn on_demand(&self) -> &BTreeSet<Kind> {
        &self.startup.on_demand
    }

    /// Returns the runners that serve calls now, without those of the host. A runner that is kept keeps its
    /// sidecar.
    pub fn busy_runners(&self) -> Vec<Runner> {
        self.slots.iter().filter_map(|slot| slot.busy_runner()).collect()
    }

    /// Returns a receiver of the running kinds.
    pub fn running(&self) -> watch::Receiver<BTreeSet<Kind>> {
        self.running.subscribe()
    }

    /// Leases the sidecar of a kind if it runs, without waiting.
    pub fn ready(&self, kind: &Kind) -> Option<Lease> {
        self.slot(kind)?.ready()
    }

    /// Leases the sidecar of a kind, and starts it first if it does not run. One start serves all waiting
    /// callers, who get the same error if it fails; the next call tries again. Starts of different kinds
    /// do not wait for each other.
    pub async fn lease(&self, kind: &Kind) -> Result<Lease, Arc<SidecarError>> {
        match self.slot(kind) {
            Some(slot) => slot.lease().await,
            None => Err(Arc::new(SidecarError::NotRunning(kind.clone()))),
        }
    }

    /// Leases the runner for the host, of the kind `host`.
    pub async fn host(&self) -> Result<Lease, Arc<SidecarError>> {
        self.host.lease().await
    }

    /// Stops all sidecars and returns when nothing of them is left.
    pub async fn stop(&self) {
        let slots = self.slots.iter().chain([&self.host]).map(Arc::clone);
        let closing = slots.map(|slot| tokio::spawn(async move { slot.close().await }));
        for closed in closing.collect::<Vec<_>>() {
            // The task only waits, and does not panic.
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
