//! The work of a session: the files and commits that a pod has for its user.

use aifo_host::short;
use aifo_terminal::console;
use anyhow::bail;

use super::cluster::{CONTAINER, Cluster, PROGRAM};
use super::result::HasEnded;
use super::upload::PodWorkspace;
use crate::PodObject;
use crate::in_pod::workspace::{ENDED, STATE, WORKSPACE_IN_POD};

/// The work of a session.
pub(crate) struct PodWork {
    /// The record of an uploaded workspace.
    pub(crate) record: Option<PodWorkspace>,
    /// Whether the workspace is a clone.
    pub(crate) is_clone: bool,
}

/// Files or commits, and why they could not be fetched.
pub(crate) type NotFetched = (&'static str, anyhow::Error);

impl PodWork {
    /// Returns whether the session has files or commits to fetch.
    pub(crate) fn exists(&self) -> bool {
        self.is_clone || self.record.is_some()
    }

    /// Removes the record of a session whose pod is deleted.
    pub(crate) fn remove_record(&self) {
        self.record.iter().for_each(PodWorkspace::remove);
    }
}

impl Cluster {
    /// Returns the work of a pod.
    pub(crate) async fn work(&self, session: &str, pod: &str) -> anyhow::Result<PodWork> {
        let record = PodWorkspace::find(session);
        // An upload is no clone.
        let is_clone = record.is_none() && self.pod(pod).await?.is_some_and(|pod| pod.has_clone());
        Ok(PodWork { record, is_clone })
    }

    /// Fetches files and commits, and reports them. Returns what was not fetched, and why.
    pub(crate) fn fetch_work(
        &self,
        session: &str,
        pod: &str,
        work: &PodWork,
        has_ended: HasEnded,
    ) -> Vec<NotFetched> {
        let mut failures = Vec::new();
        if let Some(Err(error)) = work.record.as_ref().map(|record| self.fetch(pod, record)) {
            failures.push(("files", error));
        }
        if work.exists()
            && let Err(error) = self.fetch_result(session, pod, (work.is_clone, has_ended))
        {
            failures.push(("commits", error));
        }
        failures
    }

    /// Reports work that could not be fetched. It is still in the pod only.
    pub(crate) fn report_kept(&self, session: &str, failures: Vec<NotFetched>) {
        let (id, options) = (short(session), self.options());
        for (what, error) in failures {
            console::fail(&error.context(format!(
                "cannot fetch the {what} of session {id}; its pod is kept, try again with: \
                 aifo-coder kube fetch{options} {id}"
            )));
        }
    }

    /// `kube fetch`: fetches changes and commits, and deletes the pod of a session that has ended.
    pub async fn fetch_by_hand(&self, pod: &PodObject) -> anyhow::Result<bool> {
        let id = pod.session().unwrap_or_default();
        let work = PodWork { record: PodWorkspace::find(id), is_clone: pod.has_clone() };
        if !work.exists() {
            bail!(
                "session {id} has no clone, and no workspace that was uploaded from this machine\n\
                 hint: its files are in a claim, or another user or machine has uploaded them"
            );
        }
        let failures = self.fetch_work(id, pod.name(), &work, HasEnded::No);
        if !failures.is_empty() {
            self.report_kept(id, failures);
            return Ok(false);
        }
        if self.has_ended(pod).await? && self.delete(id).await {
            work.remove_record();
        }
        Ok(true)
    }

    /// Returns whether the session has ended, and its pod only waits for a fetch.
    pub(crate) async fn has_ended(&self, pod: &PodObject) -> anyhow::Result<bool> {
        let words = [PROGRAM, WORKSPACE_IN_POD, STATE];
        let state = self.kubectl.exec_output(pod.name(), CONTAINER, &words, b"").await?;
        Ok(String::from_utf8_lossy(&state).trim() == ENDED)
    }
}
