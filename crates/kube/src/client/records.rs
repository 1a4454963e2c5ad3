//! The clusters of the pods that this machine has started (`spec/kubernetes.md#commands`).

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use aifo_host::{held_sessions, running_sessions, session_logs, state_directory, the_one};
use aifo_types::env;
use serde::{Deserialize, Serialize};

use crate::KubeTarget;

/// A session file, beside the snapshot of its upload.
const FILE: &str = "cluster.json";

/// The cluster of a session, as its client found it.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    context: Option<String>,
    namespace: Option<String>,
    kubeconfig: Option<PathBuf>,
}

/// Returns the directory of the sessions in pods; `None` without a home.
pub(crate) fn directory() -> Option<PathBuf> {
    state_directory().map(|state| state.join("pods"))
}

/// Records the cluster of a session.
pub(crate) fn write(session: &str, target: &KubeTarget) -> io::Result<()> {
    let Some(directory) = directory().map(|all| all.join(session)) else { return Ok(()) };
    let KubeTarget { context, namespace, kubeconfig } = target.clone();
    let kubeconfig = kubeconfig.map(std::path::absolute).transpose()?;
    let record = serde_json::to_vec(&Record { context, namespace, kubeconfig })?;
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    fs::write(directory.join(FILE), record)
}

/// Removes the record of a session whose pod is deleted.
pub(crate) fn remove(session: &str) {
    let Some(directory) = directory().map(|all| all.join(session)) else { return };
    // A session of another machine has none.
    let _ = fs::remove_file(directory.join(FILE));
    // The snapshot of an upload keeps the directory.
    let _ = fs::remove_dir(directory);
}

/// Returns the sessions with a record, and their clusters.
fn all() -> Vec<(String, KubeTarget)> {
    let entries = directory().and_then(|all| fs::read_dir(all).ok()).into_iter().flatten();
    let record = |entry: fs::DirEntry| {
        let text = fs::read(entry.path().join(FILE)).ok()?;
        let Record { context, namespace, kubeconfig } = serde_json::from_slice(&text).ok()?;
        let target = KubeTarget { context, namespace, kubeconfig };
        Some((entry.file_name().into_string().ok()?, target))
    };
    entries.flatten().filter_map(record).collect()
}

/// Returns the sessions that were recorded in this cluster and namespace.
pub(crate) fn in_cluster(target: &KubeTarget) -> Vec<String> {
    all().into_iter().filter(|(_, of)| of == target).map(|(session, _)| session).collect()
}

/// Returns the cluster of the session whose id starts with `prefix`; `None` if a session of this machine has
/// such an id, or no record. Errors: several have one.
pub(crate) fn find(prefix: &str) -> anyhow::Result<Option<KubeTarget>> {
    // The commands of a pod are about its own session.
    if prefix.is_empty() || std::env::var_os(env::POD_SESSION).is_some() {
        return Ok(None);
    }
    let mut recorded = all();
    recorded.retain(|(session, _)| session.starts_with(prefix));
    if recorded.is_empty() {
        return Ok(None);
    }
    let held = held_sessions().into_iter().map(|held| held.record.id);
    let running = running_sessions().into_iter().map(|session| session.id);
    let is_other = |id: &String| recorded.iter().all(|(session, _)| session != id);
    let mut here =
        held.chain(running).chain(session_logs().into_iter().map(|log| log.id)).filter(is_other);
    if here.any(|id| id.starts_with(prefix)) {
        return Ok(None);
    }
    let ids: Vec<&str> = recorded.iter().map(|(session, _)| session.as_str()).collect();
    let index = the_one(prefix, &ids, "session in the cluster")?;
    Ok(recorded.into_iter().nth(index).map(|(_, target)| target))
}
