//! The log of a session, chosen by its id.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aifo_host::{log_directory, running_sessions, the_one};
use aifo_network::connections_written;
use anyhow::{Context, bail};

/// Time between two reads of a followed log.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A session's log.
pub(crate) struct SessionLog {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// When the last call was written.
    written: SystemTime,
}

impl SessionLog {
    /// Returns the log of the session whose id starts with `prefix`, else of the newest; if it is followed,
    /// of the newest that runs.
    pub(crate) fn select(prefix: Option<&str>, follow: bool) -> anyhow::Result<Self> {
        match (prefix, follow) {
            (None, true) => newest_running().map_or_else(|| find(None), Ok),
            (prefix, _) => find(prefix),
        }
    }

    /// As [`SessionLog::select`]; without a prefix only among sessions with a network by name.
    pub(crate) fn with_connections(prefix: Option<&str>, follow: bool) -> anyhow::Result<Self> {
        if prefix.is_some() {
            return find(prefix);
        }
        let mut logs: Vec<_> = logs()
            .into_iter()
            .filter_map(|log| {
                let written = connections_written(&log.path)?;
                Some(SessionLog { written, ..log })
            })
            .collect();
        if follow && logs.iter().any(SessionLog::session_runs) {
            logs.retain(SessionLog::session_runs);
        }
        logs.sort_by_key(|log| log.written);
        logs.pop()
            .context("no session with a network by name found\nhint: start one with: --net names")
    }

    pub(crate) fn session_runs(&self) -> bool {
        running_sessions().iter().any(|session| session.id == self.id)
    }
}

/// Returns the log of the session whose id starts with `prefix`, else the newest.
fn find(prefix: Option<&str>) -> anyhow::Result<SessionLog> {
    let mut logs = logs();
    let Some(prefix) = prefix else {
        let Some(newest) = logs.pop() else {
            bail!("no log found\nhint: every session writes one; see 'aifo-coder run --help'")
        };
        return Ok(newest);
    };
    let ids: Vec<&str> = logs.iter().map(|log| log.id.as_str()).collect();
    let index = the_one(prefix, &ids, "session")?;
    Ok(logs.swap_remove(index))
}

/// Returns the log of the running session that started last.
fn newest_running() -> Option<SessionLog> {
    running_sessions().iter().rev().find_map(|session| session_log(&session.log))
}

/// All logs, also of ended sessions, the newest last.
fn logs() -> Vec<SessionLog> {
    let entries = log_directory().and_then(|directory| std::fs::read_dir(directory).ok());
    let kept = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let running = running_sessions().into_iter().map(|session| session.log);
    let mut paths: Vec<PathBuf> = kept.chain(running).collect();
    paths.sort();
    paths.dedup();
    let mut logs: Vec<SessionLog> = paths.iter().filter_map(|path| session_log(path)).collect();
    logs.sort_by_key(|log| log.written);
    logs
}

/// Returns the ids of all sessions that have a log, the newest last.
pub(crate) fn session_ids() -> Vec<String> {
    logs().into_iter().map(|log| log.id).collect()
}

fn session_log(path: &Path) -> Option<SessionLog> {
    if path.extension()? != "jsonl" {
        return None;
    }
    let id = path.file_stem()?.to_str()?.to_owned();
    let written = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
    Some(SessionLog { id, path: path.to_owned(), written })
}
