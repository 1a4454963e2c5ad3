//! Periodic fetches while a client is attached (`spec/kubernetes.md#upload`).

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use aifo_sync::{FetchReport, ReceivedResult};
use aifo_terminal::console;

use super::cluster::Cluster;
use super::result::HasEnded;
use super::upload::{PodWorkspace, fetch};
use super::work::PodWork;

/// The pause between fetches; a fetch that takes long makes it longer.
const FETCH_PAUSE: Duration = Duration::from_secs(30);
/// The pause is at least this many times as long as the last fetch.
const PAUSE_FACTOR: u32 = 10;

/// A thread that fetches. It reports no failures: the last fetch of the session reports those that persist.
pub(crate) struct PeriodicFetches {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<Fetched>>,
}

/// The work that was fetched.
#[derive(Default)]
pub(crate) struct Fetched {
    /// Changes of files.
    pub(crate) reports: Vec<FetchReport>,
    /// The last result, and the path of its repository or bundle.
    pub(crate) result: Option<(ReceivedResult, PathBuf)>,
}

impl PeriodicFetches {
    /// Starts the thread of a session that has work.
    pub(crate) fn start(
        cluster: &Cluster,
        session: &str,
        pod: &str,
        work: &PodWork,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        if !work.exists() {
            return Ok(PeriodicFetches { stop, thread: None });
        }
        let mut source = Fetcher {
            cluster: cluster.clone(),
            session: session.to_owned(),
            pod: pod.to_owned(),
            record: work.record.clone(),
            references: None,
            fetched: Fetched::default(),
        };
        let thread = thread::Builder::new().spawn(move || {
            // Commits take longer than files, and do not delay them.
            let (mut files, mut commits) = (FetchTimer::start(), FetchTimer::start());
            loop {
                let pause = files.due.min(commits.due).saturating_duration_since(Instant::now());
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return source.fetched;
                }
                files.run_if_due(|| source.fetch_files());
                commits.run_if_due(|| source.fetch_commits());
            }
        })?;
        Ok(PeriodicFetches { stop, thread: Some(thread) })
    }

    /// Stops, and returns the fetched work.
    pub(crate) fn finish(self) -> Fetched {
        drop(self.stop);
        self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// The time of the next fetch of files, or of commits.
struct FetchTimer {
    due: Instant,
}

impl FetchTimer {
    fn start() -> Self {
        FetchTimer { due: Instant::now() + FETCH_PAUSE }
    }

    fn run_if_due(&mut self, fetch: impl FnOnce()) {
        let began = Instant::now();
        if began >= self.due {
            fetch();
            let ended = Instant::now();
            self.due = ended + FETCH_PAUSE.max((ended - began) * PAUSE_FACTOR);
        }
    }
}

/// Fetches the work of a pod, and keeps the reports and the last result.
struct Fetcher {
    cluster: Cluster,
    session: String,
    pod: String,
    record: Option<PodWorkspace>,
    /// The digest of the references that were fetched.
    references: Option<String>,
    fetched: Fetched,
}

impl Fetcher {
    fn fetch_files(&mut self) {
        let Some(record) = &self.record else { return };
        let report = fetch(&self.cluster.kubectl, &self.pod, record).ok();
        self.fetched.reports.extend(report.filter(|it| !it.is_empty()));
    }

    fn fetch_commits(&mut self) {
        // Read before the commits: a later commit is fetched the next time.
        let Ok(references) = self.cluster.references(&self.pod) else { return };
        let is_fetched = references.is_empty() || self.references.as_ref() == Some(&references);
        if is_fetched {
            return;
        }
        if let Ok(result) = self.cluster.receive(&self.session, &self.pod, HasEnded::No) {
            self.references = Some(references);
            // An empty one replaces none.
            if !result.0.branches.is_empty() {
                self.fetched.result = Some(result);
            }
        }
    }
}

impl Cluster {
    /// Reports that the pod is gone, and the commits that were fetched before.
    pub(crate) fn report_lost(&self, session: &str, work: &PodWork, fetched: &Fetched) {
        console::say(match work.is_clone {
            true => {
                "the pod's commits and files since the last fetch are lost, except those that were pushed"
            }
            false => "changes of the pod's workspace since the last fetch are lost",
        });
        if let Some(result) = &fetched.result {
            self.report_result(session, result, work.is_clone);
        }
    }
}
