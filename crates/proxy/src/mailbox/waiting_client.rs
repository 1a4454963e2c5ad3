//! The client of a request that waits for approval.

use std::time::Duration;

use aifo_types::Signal;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::approval::{WaitEnd, ends_unstarted_tool};
use crate::call_watcher::shutdown_requested;
use crate::mailbox::files::{
    Directory, FileError, FileKind, HeartbeatFile, Liveness, RequestId, limits,
};

/// Watches a client for its end and its signals until the command starts.
pub(crate) struct WaitingClient<'a> {
    pub(crate) heartbeat: Option<(HeartbeatFile, Liveness)>,
    /// Notified of a signal file.
    pub(crate) signal: &'a Notify,
    /// True if it has abandoned its request.
    pub(crate) is_gone: bool,
}

/// Interval of checks for the client's liveness.
pub(crate) const LIVENESS_INTERVAL: Duration = Duration::from_secs(1);

impl WaitingClient<'_> {
    /// Waits until the client is gone or sends a signal that would end the command, and for the daemon's
    /// shutdown.
    pub(crate) async fn ended(
        &mut self,
        directory: &Directory,
        mut ending: watch::Receiver<bool>,
        request: &RequestId,
    ) -> WaitEnd {
        let mut look = interval_at(Instant::now() + LIVENESS_INTERVAL, LIVENESS_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.signal.notified() => {
                    let number = take_signal(directory, request).map(Signal::number);
                    if let Some(number) = number.filter(|number| ends_unstarted_tool(*number)) {
                        return WaitEnd::Signalled(number);
                    }
                }
                _ = look.tick() => {
                    if let Some((heartbeat, liveness)) = &mut self.heartbeat
                        && liveness.update(std::time::Instant::now(), heartbeat.read())
                    {
                        self.is_gone = true;
                        return WaitEnd::Left;
                    }
                }
                () = shutdown_requested(&mut ending) => return WaitEnd::Shutdown,
            }
        }
    }
}

/// Reads and removes the signal file, which permits the next one.
pub(crate) fn take_signal(directory: &Directory, request: &RequestId) -> Option<Signal> {
    let name = request.file(FileKind::Signal);
    let read = directory.read(&name, limits::SIGNAL);
    if read == Err(FileError::Missing) {
        return None;
    }
    let _ = directory.remove(&name);
    let text = read.unwrap_or_default();
    let text = std::str::from_utf8(&text).unwrap_or_default().trim();
    let number = || text.parse().ok().and_then(Signal::from_number);
    Signal::parse(text).or_else(number)
}
