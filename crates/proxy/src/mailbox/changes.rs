//! Changes in a mailbox directory: by inotify, or by reading the directory at an interval.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use aifo_sidecar::on_reactor;
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Interval, MissedTickBehavior, interval},
};

use crate::mailbox::files::{Directory, Watch, WatchEvent, WatchId};

/// The source of a mailbox's events. Without inotify, or while a file could not be watched, it reports
/// `Overflow` at an interval.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The watch, and the same descriptor for waiting.
    watch: Option<(Watch, AsyncFd<OwnedFd>)>,
    /// Set after the first failure of inotify.
    poll: Option<Interval>,
    /// An interval has passed.
    is_due: bool,
}

/// The interval of polling.
const POLL: Duration = Duration::from_millis(100);

impl Changes {
    /// Watches the directory. A user has a limited number of inotify instances and watches, which other
    /// programs can use up.
    pub(crate) fn of(directory: &Directory) -> Self {
        let mut changes = Changes { watch: None, poll: None, is_due: false };
        match watch(directory) {
            Ok(watch) => changes.watch = Some(watch),
            Err(error) => changes.start_polling(&error),
        }
        changes
    }

    /// Waits until there may be events. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        let poll = async {
            match &mut self.poll {
                Some(poll) => _ = poll.tick().await,
                None => std::future::pending().await,
            }
        };
        let watched = async {
            match &self.watch {
                Some((_, watched)) => watched.readable().await.map(|mut ready| ready.clear_ready()),
                None => std::future::pending().await,
            }
        };
        let failed = tokio::select! {
            () = poll => {
                self.is_due = true;
                None
            }
            ready = watched => ready.err(),
        };
        if let Some(error) = failed {
            self.watch = None;
            self.start_polling(&error);
        }
    }

    /// Returns events; empty if there are none. Repeat until then.
    pub(crate) fn read_events(&mut self) -> Vec<WatchEvent> {
        if std::mem::take(&mut self.is_due) {
            return vec![WatchEvent::Overflow];
        }
        self.watch.as_ref().and_then(|(watch, _)| watch.read_events().ok()).unwrap_or_default()
    }

    /// Watches a file for writes. `None` if it is polled.
    pub(crate) fn watch_growth(&mut self, file: &File) -> Option<WatchId> {
        let (watch, _) = self.watch.as_ref()?;
        match watch.watch_growth(file) {
            Ok(watched) => Some(watched),
            Err(errno) => {
                self.start_polling(&errno.into());
                None
            }
        }
    }

    /// Stops watching a file.
    pub(crate) fn unwatch(&self, file: WatchId) {
        if let Some((watch, _)) = &self.watch {
            watch.unwatch(file);
        }
    }

    fn start_polling(&mut self, error: &io::Error) {
        if self.poll.is_some() {
            return;
        }
        tracing::warn!(
            "cannot watch the mailbox's directory: {error}; reading it every {} ms (limits: \
             fs.inotify.max_user_instances, fs.inotify.max_user_watches)",
            POLL.as_millis()
        );
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.poll = Some(poll);
    }
}

fn watch(directory: &Directory) -> io::Result<(Watch, AsyncFd<OwnedFd>)> {
    let watch = Watch::new()?;
    watch.watch_directory(directory)?;
    let watched = on_reactor(watch.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
    Ok((watch, watched))
}
