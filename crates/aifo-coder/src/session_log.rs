//! The session log that a command means.

use std::time::Duration;

use aifo_host::{Candidate, SessionLog, session_logs, sessions_meant};
use aifo_network::connections_written;
use anyhow::bail;

use crate::choice;

/// Time between two reads of a followed log.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

const RUNNING: &str = "running session";

/// Returns the log of the session that is meant, if it is followed of a running one.
pub(crate) fn select(given: Option<&str>, follow: bool) -> anyhow::Result<SessionLog> {
    let mut logs = session_logs();
    if follow && given.is_none() {
        logs.retain(SessionLog::session_runs);
    }
    of(logs, given, if follow { RUNNING } else { "session" })
}

/// As [`select`]; without a name only among sessions with a network by name.
pub(crate) fn with_connections(given: Option<&str>, follow: bool) -> anyhow::Result<SessionLog> {
    if given.is_some() {
        return select(given, follow);
    }
    let mut logs: Vec<_> = session_logs()
        .into_iter()
        .filter_map(|log| {
            let written = connections_written(&log.path)?;
            Some(SessionLog { written, ..log })
        })
        .collect();
    if logs.is_empty() {
        bail!("no session with a network by name found\nhint: start one with: --net names");
    }
    if follow && logs.iter().any(SessionLog::session_runs) {
        logs.retain(SessionLog::session_runs);
    }
    logs.sort_by_key(|log| log.written);
    of(logs, None, "session with a network by name")
}

/// Of several logs of the current project, or of sessions that had the same name one after the other, it is the
/// one that was written last.
fn of(mut logs: Vec<SessionLog>, given: Option<&str>, what: &str) -> anyhow::Result<SessionLog> {
    if logs.is_empty() && given.is_none() && what == RUNNING {
        bail!("no session runs\nhint: without -f the calls of the last one are printed");
    }
    if logs.is_empty() && given.is_none() {
        bail!(
            "no {what} has a log\nhint: each session of the last days has one; see: aifo-coder ps"
        );
    }
    let candidates: Vec<_> = logs.iter().map(Candidate::from).collect();
    let here = choice::here();
    let meant = sessions_meant(given, &here, &candidates);
    let is_one_of = |log: &SessionLog| match given {
        Some(name) => log.name == name,
        None => !log.workspace.as_os_str().is_empty() && here.starts_with(&log.workspace),
    };
    let newest = meant.iter().rev().find(|at| logs.get(**at).is_some_and(is_one_of));
    let index = match newest {
        Some(newest) => *newest,
        None => {
            let rows: Vec<_> = logs.iter().map(choice::Row::from).collect();
            choice::choose(given, what, &rows)?
        }
    };
    Ok(logs.swap_remove(index))
}
