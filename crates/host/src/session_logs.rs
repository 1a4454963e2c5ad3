//! The logs of sessions, also of ended ones.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::call_log::log_directory;
use crate::running::{SessionInfo, running_sessions};

/// A session log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLog {
    /// The session id.
    pub id: String,
    /// The session name; empty if it was not recorded.
    pub name: String,
    /// The workspace; empty if it was not recorded.
    pub workspace: PathBuf,
    /// The file.
    pub path: PathBuf,
    /// When the last call was written.
    pub written: SystemTime,
}

impl SessionLog {
    /// Returns the log with this path; `None` if it is none.
    pub fn of(path: &Path) -> Option<Self> {
        if path.extension()? != "jsonl" {
            return None;
        }
        let id = path.file_stem()?.to_str()?.to_owned();
        let written = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
        let (name, workspace) = SessionInfo::of_log(path).unwrap_or_default();
        Some(SessionLog { id, name, workspace, path: path.to_owned(), written })
    }

    /// Returns the log of a session that outlived it.
    pub fn of_session(id: &str) -> Option<Self> {
        SessionLog::of(&log_directory()?.join(format!("{id}.jsonl")))
    }

    /// Returns whether its session runs.
    pub fn session_runs(&self) -> bool {
        running_sessions().iter().any(|session| session.id == self.id)
    }
}

/// Returns all logs, the newest last.
pub fn session_logs() -> Vec<SessionLog> {
    let entries = log_directory().and_then(|directory| std::fs::read_dir(directory).ok());
    let kept = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let running = running_sessions().into_iter().map(|session| session.log);
    let mut paths: Vec<PathBuf> = kept.chain(running).collect();
    paths.sort();
    paths.dedup();
    let mut logs: Vec<SessionLog> = paths.iter().filter_map(|path| SessionLog::of(path)).collect();
    logs.sort_by_key(|log| log.written);
    logs
}
