//! The uploaded workspace of a pod, and the fetch of its changes (`spec/kubernetes.md#upload`).

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aifo_host::short;
use aifo_sync::{ConflictKind, Fetch, FetchReport, Snapshot, Upload};
use aifo_terminal::console;
use anyhow::{Context, bail};
use tempfile::NamedTempFile;

use super::cluster::{CONTAINER, Cluster, PROGRAM};
use super::copy::{END_TIME, PodCopy};
use super::records;
use crate::Kubectl;
use crate::in_pod::workspace::{CHANGES, RECEIVE, RECEIVED, WORKSPACE_IN_POD};

/// The init container that receives the files.
const UPLOAD_CONTAINER: &str = "upload";
/// The time for the pod to receive the client's confirmation of an upload.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(60);

/// The record of an upload: the workspace, and the snapshot that both sides have.
#[derive(Clone, Debug)]
pub(crate) struct PodWorkspace {
    directory: PathBuf,
    pub(crate) session: String,
}

impl PodWorkspace {
    /// Returns a session record; `None` if this user did not upload its workspace here.
    pub(crate) fn find(session: &str) -> Option<Self> {
        let record = PodWorkspace::of(session).ok()?;
        record.directory.join(BASE).is_file().then_some(record)
    }

    fn of(session: &str) -> anyhow::Result<Self> {
        let all = records::directory().context("cannot keep the snapshot: HOME is not set")?;
        let directory = all.join(session);
        Ok(PodWorkspace { directory, session: session.to_owned() })
    }

    fn create(session: &str, workspace: &Path, base: &Snapshot) -> anyhow::Result<Self> {
        let record = PodWorkspace::of(session)?;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&record.directory)?;
        let path = workspace.to_str().context("the workspace's path is not valid UTF-8")?;
        fs::write(record.directory.join(PATH), path)?;
        record.write(base)?;
        Ok(record)
    }

    fn workspace(&self) -> anyhow::Result<PathBuf> {
        let file = self.directory.join(PATH);
        let path = fs::read_to_string(&file);
        Ok(path.with_context(|| format!("cannot read '{}'", file.display()))?.into())
    }

    fn read(&self) -> anyhow::Result<Snapshot> {
        let file = self.directory.join(BASE);
        let opened = File::open(&file).with_context(|| format!("cannot read '{}'", file.display()));
        Ok(Snapshot::read(BufReader::new(opened?))?)
    }

    /// Replaces the snapshot at once.
    fn write(&self, base: &Snapshot) -> anyhow::Result<()> {
        let mut file = NamedTempFile::new_in(&self.directory)?;
        base.write(BufWriter::new(file.as_file_mut()))?;
        file.persist(self.directory.join(BASE))?;
        Ok(())
    }

    /// Waits for fetches of other processes.
    fn lock(&self) -> anyhow::Result<File> {
        let file = File::create(self.directory.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Removes the record of a session whose pod is deleted.
    pub(crate) fn remove(&self) {
        // It is small.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const BASE: &str = "snapshot";
const PATH: &str = "workspace";

/// Copies the files to the init container of a pod, which waits for them.
pub(crate) fn upload(
    kubectl: &Kubectl,
    pod: &str,
    session: &str,
    workspace: &Path,
    files: &Upload,
) -> anyhow::Result<()> {
    let words = [PROGRAM, WORKSPACE_IN_POD, RECEIVE];
    let (mut stdin, stdout, copy) = PodCopy::start(kubectl.exec(pod, UPLOAD_CONTAINER, words))?;
    let sent = files.send(BufWriter::with_capacity(256 << 10, &mut stdin));
    let received = sent.map_err(anyhow::Error::from).and_then(|base| {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if !line.starts_with(RECEIVED) {
            bail!("the pod did not confirm it");
        }
        // Before the agent starts: no change is lost.
        PodWorkspace::create(session, workspace, &base)?;
        stdin.write_all(b"\n")?;
        stdin.flush()?;
        Ok(())
    });
    // Open until the pod has the confirmation and kubectl ends: an end of stdin can overtake the bytes before it.
    let within = if received.is_ok() { CONFIRMED_WITHIN } else { END_TIME };
    let received = copy.finish_within(within, received);
    drop(stdin);
    received.context("cannot upload the workspace")
}

/// Fetches the changes of a pod workspace, and applies them.
pub(crate) fn fetch(
    kubectl: &Kubectl,
    pod: &str,
    record: &PodWorkspace,
) -> anyhow::Result<FetchReport> {
    let _lock = record.lock()?;
    let mut base = record.read()?;
    let workspace = record.workspace()?;
    let words = [PROGRAM, WORKSPACE_IN_POD, CHANGES];
    let (mut stdin, stdout, copy) = PodCopy::start(kubectl.exec(pod, CONTAINER, words))?;
    // The pod reads all of it before it answers.
    let sent = base.write(BufWriter::with_capacity(256 << 10, &mut stdin));
    let stdout = BufReader::with_capacity(256 << 10, stdout);
    let applied = Fetch::new(&workspace, &record.session)
        .and_then(|fetch| sent.and_then(|()| fetch.apply(&mut base, stdout)));
    let applied = copy.finish(applied.map_err(Into::into));
    drop(stdin);
    let report = applied?;
    record.write(&base)?;
    Ok(report)
}

/// Prints what fetches have changed.
pub(crate) fn report(session: &str, reports: &[FetchReport]) {
    let id = short(session);
    let sum = |count: fn(&FetchReport) -> usize| reports.iter().map(count).sum::<usize>();
    let (written, removed) = (sum(|it| it.written), sum(|it| it.removed));
    if written + removed > 0 {
        console::say(format_args!(
            "fetched from the pod of session {id}: {} written, {removed} removed",
            console::counted(written, "file")
        ));
    }
    for conflict in reports.iter().flat_map(|it| &it.conflicts) {
        let copy = conflict.copy.as_ref().map(|copy| copy.display().to_string());
        let copy = copy.unwrap_or_default();
        let path = &conflict.path;
        let text = match conflict.kind {
            ConflictKind::BothChanged => {
                format!("changed here and in the pod; the pod's version is '{copy}'")
            }
            ConflictKind::DeletedInPod => {
                "changed here, and deleted in the pod; it stays".to_owned()
            }
            ConflictKind::GoneHere => {
                format!("changed in the pod, but not a file here; the pod's version is '{copy}'")
            }
        };
        console::say(aifo_types::escape_line(&format!("conflict: '{path}' was {text}")));
    }
    for rejection in reports.iter().flat_map(|it| &it.rejected) {
        console::say(format_args!("not fetched: '{}' {}", rejection.path, rejection.why));
    }
    let more = sum(|it| it.more_rejected);
    if more > 0 {
        console::say(format_args!("not fetched: {more} more"));
    }
}

impl Cluster {
    /// Fetches the changes of a session, and reports them.
    pub(crate) fn fetch(&self, pod: &str, record: &PodWorkspace) -> anyhow::Result<()> {
        report(&record.session, &[fetch(&self.kubectl, pod, record)?]);
        Ok(())
    }
}
