//! Reports what listens in this network stack while tools run (`spec/network.md#mirrors`).

use std::time::{Duration, Instant};

use aifo_wire::{Frame, Listener, ListenerReport, MAX_LISTENERS};

use crate::listening_sockets::SocketQuery;

/// The watch on this network namespace's listeners. It reads them at intervals while an exec or a
/// background process runs, and sets no timer otherwise.
#[derive(Debug)]
pub(crate) struct ListenerWatch {
    /// `None` if the kernel does not list listeners.
    query: Option<SocketQuery>,
    /// While an exec runs, and while only background processes run.
    intervals: [Option<Duration>; 2],
    /// When they are read next; `None` at rest.
    next: Option<Instant>,
    /// The last report.
    reported: Option<(ListenerReport, Vec<Listener>)>,
}

/// The processes below the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Execs,
    Background,
    None,
}

impl ListenerWatch {
    /// Starts a watch with these intervals in ms; 0 for never.
    pub(crate) fn new(interval: u16, background: u16) -> Self {
        let intervals =
            [interval, background].map(|ms| (ms > 0).then(|| Duration::from_millis(u64::from(ms))));
        ListenerWatch { query: SocketQuery::open().ok(), intervals, next: None, reported: None }
    }

    /// Returns when [`ListenerWatch::update`] must be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Sets the timer for this activity. Returns a report if one is due and differs from the last one.
    pub(crate) fn update(&mut self, activity: Activity, now: Instant) -> Option<Frame<'static>> {
        let interval = match activity {
            Activity::Execs => self.intervals[0],
            Activity::Background => self.intervals[1],
            Activity::None => None,
        };
        let Some(interval) = interval else {
            // The last tool may have closed its listeners when it ended.
            let was_watching = self.next.take().is_some();
            let has_listeners = self.reported.as_ref().is_some_and(|(_, all)| !all.is_empty());
            return if was_watching && has_listeners { self.report() } else { None };
        };
        match self.next {
            None => {
                // Another runner of the stack may have reported a change meanwhile.
                self.reported = None;
                self.next = Some(now + interval);
                None
            }
            Some(next) if next <= now => {
                self.next = Some(now + interval);
                self.report()
            }
            Some(next) => {
                // An exec has begun since.
                self.next = Some(next.min(now + interval));
                None
            }
        }
    }

    /// Reads the listeners, and returns them if they have changed.
    pub(crate) fn report(&mut self) -> Option<Frame<'static>> {
        let read = self.query.as_ref().map(SocketQuery::listeners);
        let current = match read {
            Some(Ok(listeners)) if listeners.len() <= MAX_LISTENERS => {
                (ListenerReport::Complete, listeners)
            }
            Some(Ok(mut listeners)) => {
                listeners.truncate(MAX_LISTENERS);
                (ListenerReport::Truncated, listeners)
            }
            Some(Err(_)) | None => (ListenerReport::Unavailable, Vec::new()),
        };
        if self.reported.as_ref() == Some(&current) {
            return None;
        }
        let (report, listeners) = current.clone();
        self.reported = Some(current);
        Some(Frame::Listeners { report, listeners })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn ports(frame: Option<Frame<'_>>) -> Vec<u16> {
        let Some(Frame::Listeners { report: ListenerReport::Complete, listeners }) = frame else {
            panic!("no complete report");
        };
        listeners.iter().map(|listener| listener.port).collect()
    }

    #[test]
    fn nothing_is_read_at_rest() {
        let mut watch = ListenerWatch::new(20, 200);
        let now = Instant::now();
        assert_eq!(watch.update(Activity::None, now), None);
        assert_eq!(watch.poll_timeout(), None);
        // A call that is shorter than the interval.
        assert_eq!(watch.update(Activity::Execs, now), None);
        assert_eq!(watch.poll_timeout(), Some(now + Duration::from_millis(20)));
        assert_eq!(watch.update(Activity::None, now), None);
        assert_eq!(watch.poll_timeout(), None);
    }

    #[test]
    fn changes_are_reported_at_the_interval() {
        let mut watch = ListenerWatch::new(20, 200);
        let (start, ms) = (Instant::now(), Duration::from_millis(1));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(watch.update(Activity::Execs, start), None);
        assert_eq!(watch.update(Activity::Execs, start + 19 * ms), None);
        assert!(ports(watch.update(Activity::Execs, start + 20 * ms)).contains(&port));
        assert_eq!(watch.poll_timeout(), Some(start + 40 * ms));
        drop(listener);
        assert!(!ports(watch.update(Activity::Execs, start + 40 * ms)).contains(&port));
        // Then only background processes run, until an exec begins.
        watch.update(Activity::Background, start + 60 * ms);
        assert_eq!(watch.poll_timeout(), Some(start + 260 * ms));
        watch.update(Activity::Execs, start + 70 * ms);
        assert_eq!(watch.poll_timeout(), Some(start + 90 * ms));
    }

    #[test]
    fn the_end_of_the_last_tool_is_reported_at_once() {
        let mut watch = ListenerWatch::new(20, 0);
        let (start, ms) = (Instant::now(), Duration::from_millis(1));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        watch.update(Activity::Execs, start);
        assert!(ports(watch.update(Activity::Execs, start + 20 * ms)).contains(&port));
        drop(listener);
        assert!(!ports(watch.update(Activity::Background, start + 21 * ms)).contains(&port));
        assert_eq!(watch.poll_timeout(), None);
    }
}
