//! The last fetch of a session, and whether the cluster has ended its pod (`spec/kubernetes.md#the-terminal`).

use std::time::Duration;

use aifo_host::short;
use aifo_terminal::console;
use aifo_types::{Ending, Signal, exit};
use tokio::time::{Instant, sleep};

use super::cluster::Cluster;
use super::periodic_fetches::Fetched;
use super::result::HasEnded;
use super::work::PodWork;
use crate::{PodFailure, PodObject, PodState};

/// The time for a node to report why it has ended a pod: it does when all containers have ended, which have 10 s
/// after TERM.
const REASON_TIME: Duration = Duration::from_secs(15);
/// The pause between requests for the reason.
const PAUSE: Duration = Duration::from_secs(1);

/// How a session has ended, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The command has ended with this code.
    Ended(u8),
    /// The user has ended it; the code is that of the signal.
    Cancelled(u8),
    /// The connection is lost.
    Lost,
}

/// What has become of the work of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastFetch {
    Done,
    /// Some of it is still in the pod only, as was reported.
    Kept,
    /// The cluster has ended the pod, as was reported with its reason.
    Gone,
}

impl SessionEnd {
    /// Returns for how long the cluster may be the cause; `None` if it is not.
    fn doubt(self) -> Option<Duration> {
        let by = |signal: Signal| Ending::Signaled(signal.number()).exit_code();
        match self {
            SessionEnd::Lost => Some(REASON_TIME),
            SessionEnd::Ended(code) if code == by(Signal::Term) || code == by(Signal::Kill) => {
                Some(REASON_TIME)
            }
            SessionEnd::Ended(code) if code >= exit::UNKNOWN => Some(Duration::ZERO),
            SessionEnd::Ended(_) | SessionEnd::Cancelled(_) => None,
        }
    }

    fn has_ended(self) -> HasEnded {
        match self {
            // The command may still run.
            SessionEnd::Lost => HasEnded::No,
            SessionEnd::Ended(_) | SessionEnd::Cancelled(_) => HasEnded::Yes,
        }
    }
}

impl Cluster {
    /// Fetches the work of a session that has ended, while its pod still has it, then reports why the cluster has
    /// ended the pod, if it has. `before` is what periodic fetches have.
    pub(crate) async fn fetch_last(
        &self,
        (session, pod): (&str, &str),
        work: &PodWork,
        before: &Fetched,
        end: SessionEnd,
    ) -> LastFetch {
        let failures = self.fetch_work(session, pod, work, end.has_ended());
        let doubt = match failures.is_empty() {
            true => end.doubt(),
            false => Some(end.doubt().unwrap_or_default()),
        };
        let cause = match doubt {
            Some(within) => {
                let has_ended = self.end_from_outside(session, pod, within).await;
                has_ended
                    .filter(|end| end.is_by_cluster || !failures.is_empty())
                    .map(|end| end.cause)
            }
            None => None,
        };
        match cause {
            Some(cause) => {
                console::fail(&cause);
                if !failures.is_empty() {
                    self.report_lost(session, work, before);
                }
                LastFetch::Gone
            }
            None if failures.is_empty() => LastFetch::Done,
            None => {
                self.report_kept(session, failures);
                LastFetch::Kept
            }
        }
    }

    /// Returns why a pod has ended, if it has or does so in this time.
    async fn end_from_outside(&self, session: &str, pod: &str, within: Duration) -> Option<PodEnd> {
        let id = short(session);
        let by_cluster = |cause| Some(PodEnd { cause, is_by_cluster: true });
        let deadline = Instant::now() + within;
        loop {
            let found = self.pod(pod).await.ok()?;
            let ended_by = found.as_ref().and_then(PodObject::ended_by_cluster);
            match found.map(|it| (it.is_deleted(), it.state())) {
                None | Some((true, _)) => return by_cluster(deleted(id, ended_by)),
                Some((false, PodState::Failed(failure))) => {
                    return by_cluster(self.explained(pod, failure).await);
                }
                Some((false, PodState::Ended(_))) if ended_by.is_some() => {
                    return by_cluster(deleted(id, ended_by));
                }
                Some((false, PodState::Ended(code))) => {
                    let cause =
                        anyhow::anyhow!("the pod of session {id} ended with exit code {code}");
                    return Some(PodEnd { cause, is_by_cluster: false });
                }
                Some(_) if Instant::now() < deadline => sleep(PAUSE).await,
                Some(_) => return None,
            }
        }
    }
}

/// Why a pod has ended.
struct PodEnd {
    cause: anyhow::Error,
    /// The pod was deleted or has failed.
    is_by_cluster: bool,
}

/// Returns the error for a deleted pod, with the cluster's reason, if it has one.
pub(crate) fn deleted(id: &str, ended_by: Option<PodFailure>) -> anyhow::Error {
    match ended_by {
        Some(failure) => anyhow::anyhow!("{}\nhint: {}", failure.message, failure.hint),
        None => anyhow::anyhow!("the pod of session {id} was deleted"),
    }
}
