//! The start of a pod: creates it, and reports its progress until all containers run.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aifo_host::CheckedWorkspace;
use aifo_sync::{Upload, UploadLimits, UploadScope};
use aifo_terminal::console::{self, PROGRESS};
use aifo_types::escape_line;
use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::{
    io::AsyncReadExt,
    process::{Child, ChildStdout},
    time::{Instant, sleep, sleep_until},
};

use super::cluster::{Cluster, away};
use super::upload::{PodWorkspace, upload};
use crate::{EventObject, FailureCause, Kubectl, KubectlError, PodFailure, PodObject, PodState};

/// The time for a pod to start; runners and launcher wait as long for each other.
const START_TIME: Duration = Duration::from_secs(600);
/// The time for which a registry may fail without a final answer.
const PULL_ERROR_TIME: Duration = Duration::from_secs(60);
/// The pause before a watch that has ended is started again.
const WATCH_PAUSE: Duration = Duration::from_millis(500);

/// The files of a workspace to upload.
pub(crate) struct Files {
    workspace: PathBuf,
    upload: Upload,
}

impl Files {
    /// Finds them. Errors: the directory cannot be a workspace, or has too much.
    pub(crate) fn plan(workspace: &Path, is_all: bool) -> anyhow::Result<Self> {
        let workspace = CheckedWorkspace::new(workspace)?;
        let workspace = workspace.path().to_owned();
        let scope = match is_all {
            true => UploadScope::All,
            false => UploadScope::Unignored,
        };
        let upload = Upload::plan(&workspace, scope, UploadLimits::default())?;
        let mut skipped = upload.skipped();
        for (path, why) in skipped.by_ref().take(MAX_SKIPPED) {
            tracing::warn!("not uploaded: '{path}' {why}");
        }
        let more = skipped.count();
        if more > 0 {
            tracing::warn!("not uploaded: {more} more");
        }
        Ok(Files { workspace, upload })
    }

    fn step(&self) -> String {
        let (files, kib) = (self.upload.files(), self.upload.bytes().div_ceil(1024));
        let files = console::counted(files, "file");
        match kib < 10_000 {
            true => format!("uploading {files}, {kib} KiB"),
            false => format!("uploading {files}, {} MiB", kib / 1024),
        }
    }

    async fn send(self, kubectl: &Kubectl, session: &str, pod: &str) -> anyhow::Result<()> {
        let (kubectl, session, pod) = (kubectl.clone(), session.to_owned(), pod.to_owned());
        let sent = tokio::task::spawn_blocking(move || {
            upload(&kubectl, &pod, &session, &self.workspace, &self.upload)
        });
        sent.await.context("the upload has failed")?
    }
}

/// Skipped paths that are named.
const MAX_SKIPPED: usize = 10;

impl Cluster {
    /// Lets the API server check the manifests, without creating anything.
    pub(crate) async fn check(&self, manifests: &str) -> Result<(), KubectlError> {
        let args = ["create", "--dry-run=server", "--filename=-", "--output=name"];
        let checked = self.kubectl.answer_retried(&args, manifests.as_bytes(), away).await?;
        for warning in checked.warnings() {
            console::say(format_args!("the cluster warns: {}", escape_line(warning)));
        }
        Ok(())
    }

    /// Creates the objects of the manifests. Deleting the pod then deletes its network policy.
    pub(crate) async fn create(&self, name: &str, manifests: &str) -> Result<(), KubectlError> {
        let fields = "--output=jsonpath={.kind}/{.metadata.uid};";
        let args = ["create", "--filename=-", fields];
        let mut is_repeated = false;
        let created = self.kubectl.output_retried(&args, manifests.as_bytes(), |failure| {
            is_repeated = true;
            away(failure);
        });
        match created.await {
            // The first attempt has created them, or some: the pod is the last.
            Err(error) if is_repeated && error.cause() == Some(FailureCause::AlreadyExists) => {
                Ok(())
            }
            created => {
                let created = created?;
                let objects = String::from_utf8_lossy(&created);
                if let Some(uid) = objects.split(';').find_map(|it| it.strip_prefix("Pod/")) {
                    self.own_policy(name, uid).await;
                }
                Ok(())
            }
        }
    }

    /// Makes a pod the owner of its network policy, which was created before it.
    async fn own_policy(&self, name: &str, uid: &str) {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        let patch = json!({"metadata": {"ownerReferences": [owner]}}).to_string();
        let args = ["patch", "networkpolicy", name, "--type=merge", "--patch", &patch];
        // Without the right to, the end of the session deletes both.
        if let Err(error) = self.kubectl.output(&args, b"").await {
            tracing::debug!("the pod does not own its network policy: {error}");
        }
    }

    /// Waits until all containers of a pod run. Errors: it cannot start.
    pub(crate) async fn wait_until_running(
        &self,
        session: &str,
        name: &str,
        mut files: Option<Files>,
    ) -> anyhow::Result<()> {
        let mut progress = Progress::default();
        let deadline = Instant::now() + START_TIME;
        loop {
            match self.watch(name, &mut progress, deadline, files.is_some()).await {
                Ok(Watched::Running) => return Ok(()),
                Ok(Watched::TimedOut) => bail!(
                    "the pod did not start in time: {}\nhint: see: kubectl describe pod {name}",
                    progress.step
                ),
                Ok(Watched::Uploads) => {
                    if let Some(files) = files.take() {
                        progress.show(&files.step());
                        files.send(&self.kubectl, session, name).await?;
                    }
                    continue;
                }
                Ok(Watched::StreamEnded) => {}
                Err(failure) => {
                    progress.clear();
                    return Err(self.explained(name, failure).await);
                }
            }
            sleep(WATCH_PAUSE).await;
            if self.pod(name).await?.is_none_or(|pod| pod.is_deleted()) {
                bail!("the pod was deleted while it started");
            }
        }
    }

    /// Reads the pod and its events as they change.
    async fn watch(
        &self,
        name: &str,
        progress: &mut Progress,
        deadline: Instant,
        has_files: bool,
    ) -> Result<Watched, PodFailure> {
        let of_pod = format!("--field-selector=involvedObject.name={name}");
        let json = "--output=json";
        let pods = self.kubectl.stream(&["get", "pod", name, "--watch", json]);
        let events = self.kubectl.stream(&["get", "events", &of_pod, "--watch", json]);
        let (Ok(pods), Ok(events)) = (pods, events) else { return Ok(Watched::StreamEnded) };
        let (mut pods, mut events) = (Objects::new(pods), Objects::new(events));
        loop {
            let deadline = progress.deadline().unwrap_or(deadline).min(deadline);
            tokio::select! {
                () = sleep_until(deadline) => return Ok(Watched::TimedOut),
                pod = pods.next::<PodObject>() => {
                    let Some(pod) = pod else { return Ok(Watched::StreamEnded) };
                    if has_files && pod.waits_for_upload() {
                        return Ok(Watched::Uploads);
                    }
                    match pod.state() {
                        PodState::Running | PodState::Ended(_) => return Ok(Watched::Running),
                        PodState::Failed(failure) => return Err(failure),
                        PodState::Starting(step) => progress.starting(&step),
                        PodState::Delayed(step) => progress.delayed(&step),
                    }
                }
                // Without the right to read events, there are none.
                Some(event) = events.next::<EventObject>() => {
                    if let Some(step) = event.step() {
                        progress.event(&step);
                    }
                }
            }
        }
    }

    /// Returns the error for a failed pod, with the end of the log of its failed container.
    pub(crate) async fn explained(&self, name: &str, failure: PodFailure) -> anyhow::Error {
        let mut text = failure.message;
        if let Some(container) = &failure.log_of {
            let args = ["logs", name, "--container", container, "--tail=10"];
            let log = self.kubectl.output(&args, b"").await.unwrap_or_default();
            for line in String::from_utf8_lossy(&log).lines() {
                text += &format!("\n  {}", escape_line(line));
            }
        }
        anyhow::anyhow!("{text}\nhint: {}", failure.hint)
    }
}

/// Why a watch has ended.
enum Watched {
    Running,
    /// The pod waits for the workspace.
    Uploads,
    StreamEnded,
    TimedOut,
}

/// The steps of a start, on stderr: a status line on a terminal, else a line for each.
#[derive(Default)]
struct Progress {
    step: String,
    /// Since when an image cannot be pulled.
    pull_error: Option<Instant>,
}

impl Progress {
    fn starting(&mut self, step: &str) {
        self.pull_error = None;
        // An event says more of the same step.
        if self.step.is_empty() || !step.starts_with("creating") {
            self.show(step);
        }
    }

    fn delayed(&mut self, step: &str) {
        if step.starts_with("cannot pull") {
            self.pull_error.get_or_insert_with(Instant::now);
        }
        self.show(step);
    }

    fn event(&mut self, step: &str) {
        self.show(step);
    }

    /// When a start with a failing registry ends.
    fn deadline(&self) -> Option<Instant> {
        self.pull_error.map(|since| since + PULL_ERROR_TIME)
    }

    fn show(&mut self, step: &str) {
        if self.step == step {
            return;
        }
        step.clone_into(&mut self.step);
        if std::io::stderr().is_terminal() {
            console::set_status(&escape_line(&format!("aifo-coder: pod: {step}")));
        } else {
            tracing::info!(target: PROGRESS, "pod: {step}");
        }
    }

    fn clear(&self) {
        console::set_status("");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The JSON objects that a command prints.
struct Objects {
    _child: Child,
    stdout: Option<ChildStdout>,
    bytes: Vec<u8>,
}

impl Objects {
    fn new(mut child: Child) -> Self {
        Objects { stdout: child.stdout.take(), _child: child, bytes: Vec::new() }
    }

    /// Returns the next object; `None` at the end. Cancelling loses nothing.
    async fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            let mut parser = serde_json::Deserializer::from_slice(&self.bytes).into_iter::<T>();
            match parser.next() {
                Some(Ok(object)) => {
                    let read = parser.byte_offset();
                    self.bytes.drain(..read);
                    return Some(object);
                }
                Some(Err(error)) if !error.is_eof() => return None,
                Some(Err(_)) | None => {}
            }
            let count = self.stdout.as_mut()?.read_buf(&mut self.bytes).await;
            if self.bytes.len() > MAX_OBJECT || !count.is_ok_and(|count| count > 0) {
                return None;
            }
        }
    }
}

/// The API server's own limit of an object is 3 MB.
const MAX_OBJECT: usize = 8 * 1024 * 1024;

impl Cluster {
    /// Starts a session's pod. Errors: nothing of it is left.
    pub(crate) async fn start(
        &self,
        session: &str,
        name: &str,
        manifests: &str,
        files: Option<Files>,
    ) -> anyhow::Result<()> {
        self.check(manifests).await.context("the cluster does not accept the session")?;
        let started = match self.create(name, manifests).await {
            Ok(()) => {
                self.record(session).await;
                self.wait_until_running(session, name, files).await
            }
            Err(error) => {
                Err(anyhow::Error::from(error).context("cannot create the session's pod"))
            }
        };
        if started.is_err() {
            self.delete(session).await;
            if let Some(record) = PodWorkspace::find(session) {
                record.remove();
            }
        }
        started
    }
}
