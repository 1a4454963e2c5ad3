//! A session log, chosen by its id.

use std::time::Duration;

use aifo_host::{SessionLog, running_sessions, session_logs, the_one};
use aifo_network::connections_written;
use anyhow::{Context, bail};

/// Time between two reads of a followed log.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the log of the session whose id starts with `prefix`, else of the newest; if it is followed, of the
/// newest that runs.
pub(crate) fn select(prefix: Option<&str>, follow: bool) -> anyhow::Result<SessionLog> {
    match (prefix, follow) {
        (None, true) => newest_running().map_or_else(|| find(None), Ok),
        (prefix, _) => find(prefix),
    }
}

/// As [`select`]; without a prefix only among sessions with a network by name.
pub(crate) fn with_connections(prefix: Option<&str>, follow: bool) -> anyhow::Result<SessionLog> {
    if prefix.is_some() {
        return find(prefix);
    }
    let mut logs: Vec<_> = session_logs()
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
    logs.pop().context("no session with a network by name found\nhint: start one with: --net names")
}

/// Returns the log of the session whose id starts with `prefix`, else the newest.
fn find(prefix: Option<&str>) -> anyhow::Result<SessionLog> {
    let mut logs = session_logs();
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
    running_sessions().iter().rev().find_map(|session| SessionLog::of(&session.log))
}
