//! What is told of sidecars as they come and go.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aifo_types::Kind;

use crate::error::SidecarError;

/// Something that happened to a sidecar.
#[derive(Clone, Copy, Debug)]
pub enum SidecarEvent<'a> {
    /// It is on its way up.
    Starting,
    /// What its start is busy with, in words and without a line end: an image that is fetched, say.
    Line(&'a str),
    /// It is up, after so long.
    Ready(Duration),
    /// It did not come up. Nothing of it is left.
    Failed(&'a SidecarError),
    /// It had nothing to do for so long and has gone; the next call starts it anew.
    Idle(Duration),
}

/// Somebody who wants to know; nobody by default. Called on the reactor, so it must not take long.
#[derive(Clone, Default)]
pub struct Reporter(Option<Arc<Callback>>);

type Callback = dyn Fn(&Kind, SidecarEvent<'_>) + Send + Sync;

impl Reporter {
    /// Calls `callback` for everything that happens to any sidecar.
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

/// How one start tells what it is busy with. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Progress {
    kind: Kind,
    reporter: Reporter,
}

impl Progress {
    pub(crate) fn new(kind: Kind, reporter: Reporter) -> Self {
        Progress { kind, reporter }
    }

    /// Tells a line; each stands for the one before.
    pub fn line(&self, text: &str) {
        self.reporter.report(&self.kind, SidecarEvent::Line(text));
    }
}
