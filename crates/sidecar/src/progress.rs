//! Reports the starts and ends of sidecars.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aifo_types::Kind;

use crate::error::SidecarError;

/// An event of a sidecar.
#[derive(Clone, Copy, Debug)]
pub enum SidecarEvent<'a> {
    /// It is being started.
    Starting,
    /// A line about the current step of its start, without a line end, for example a pull's progress.
    Line(&'a str),
    /// It runs; the duration of its start.
    Ready(Duration),
    /// Its start failed. Nothing of it is left.
    Failed(&'a SidecarError),
    /// It was idle for this time and has been stopped. The next call starts it again.
    Idle(Duration),
    /// It has been stopped for this reason. It starts again now.
    Outdated(OutdatedCause),
}

/// Why a running sidecar must be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutdatedCause {
    /// A mounted file was replaced (`spec/containers.md#repository`).
    ReplacedMount,
    /// Its network stack is no longer served (`spec/network.md#failure`).
    LostStack,
}

/// A callback for sidecar events; none by default. It runs on the reactor and must not block.
#[derive(Clone, Default)]
pub struct Reporter(Option<Arc<Callback>>);

type Callback = dyn Fn(&Kind, SidecarEvent<'_>) + Send + Sync;

impl Reporter {
    /// Calls `callback` for each event.
    pub fn new(callback: impl Fn(&Kind, SidecarEvent<'_>) + Send + Sync + 'static) -> Self {
        Reporter(Some(Arc::new(callback)))
    }

    pub(crate) fn report(&self, kind: &Kind, event: SidecarEvent<'_>) {
        if let Some(callback) = &self.0 {
            callback(kind, event);
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Reporter(..)" } else { "Reporter(none)" })
    }
}

/// Reports the steps of one start. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Progress {
    kind: Kind,
    reporter: Reporter,
}

impl Progress {
    pub(crate) fn new(kind: Kind, reporter: Reporter) -> Self {
        Progress { kind, reporter }
    }

    /// Reports a line, which replaces the one before.
    pub fn line(&self, text: &str) {
        self.reporter.report(&self.kind, SidecarEvent::Line(text));
    }
}
