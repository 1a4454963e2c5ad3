//! The session that a command means (`spec/cli.md#which-session`).

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use aifo_host::{Candidate, ELSEWHERE, HeldSession, HeldState, SessionInfo, SessionLog};
use aifo_host::{sessions_meant, short};
use aifo_terminal::{console, paint};
use aifo_types::escape_line;
use anyhow::{Context, bail};

/// A session in a list to choose from.
pub(crate) struct Row {
    pub(crate) candidate: Candidate,
    since: SystemTime,
    state: &'static str,
}

impl From<&SessionInfo> for Row {
    fn from(session: &SessionInfo) -> Self {
        Row { candidate: session.into(), since: session.started, state: "runs" }
    }
}

impl From<&SessionLog> for Row {
    fn from(log: &SessionLog) -> Self {
        let state = if log.session_runs() { "runs" } else { "ended" };
        Row { candidate: log.into(), since: log.written, state }
    }
}

impl Row {
    /// Returns the row of a held session, whose name the session that it holds has.
    pub(crate) fn of_held(held: &HeldSession, running: &[SessionInfo]) -> Self {
        let id = held.record.id.clone();
        let session = running.iter().find(|session| session.id == id);
        let of_log = SessionLog::of_session(&id);
        let name = session.map(|session| session.name.clone());
        let name = name.or_else(|| of_log.map(|log| log.name)).unwrap_or_default();
        let workspace = match session {
            Some(session) => session.workspace.clone(),
            None => held.record.directory.clone(),
        };
        let (state, since) = match held.state {
            HeldState::Running(0) => ("detached", None),
            HeldState::Running(_) => ("attached", None),
            HeldState::Ended(time) => ("ended", Some(time)),
            HeldState::Lost => ("lost", None),
        };
        let since = since.unwrap_or_else(|| held.started());
        Row { candidate: Candidate { id, name, workspace }, since, state }
    }

    /// Its name, or of a session without one the beginning of its id.
    pub(crate) fn label(&self) -> &str {
        match self.candidate.name.as_str() {
            "" => short(&self.candidate.id),
            name => name,
        }
    }
}

/// Returns the index of the session that is meant. Of several it asks, on a terminal.
///
/// Errors: there is none, or several, named with `what`, such as `running session`.
pub(crate) fn choose(given: Option<&str>, what: &str, rows: &[Row]) -> anyhow::Result<usize> {
    let candidates: Vec<Candidate> = rows.iter().map(|row| row.candidate.clone()).collect();
    match sessions_meant(given, &here(), &candidates)[..] {
        [only] => Ok(only),
        [] => bail!(none(given.unwrap_or_default(), what, rows)),
        ref several => ask(what, rows, several),
    }
}

/// The directory of this process; empty if it was removed.
pub(crate) fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

fn none(given: &str, what: &str, rows: &[Row]) -> String {
    if given.is_empty() {
        return format!("no {what} found\nhint: start one with: aifo-coder run AGENT; {ELSEWHERE}");
    }
    let mut known: Vec<_> = rows.iter().map(Row::label).collect();
    known.sort_unstable();
    known.dedup();
    match known.is_empty() {
        true => format!("no {what} '{given}'\nhint: {ELSEWHERE}"),
        false => format!("no {what} '{given}'\nhint: there are {}; {ELSEWHERE}", known.join(", ")),
    }
}

fn ask(what: &str, rows: &[Row], several: &[usize]) -> anyhow::Result<usize> {
    let shown: Vec<&Row> = several.iter().filter_map(|at| rows.get(*at)).collect();
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let named = shown.iter().map(|row| {
            let (id, place) = (short(&row.candidate.id), row.candidate.workspace.display());
            escape_line(&format!("{} ({id}) in '{place}'", row.label()))
        });
        let named = named.collect::<Vec<_>>().join(", ");
        bail!("more than one {what}\nhint: name one of: {named}");
    }
    let now = SystemTime::now();
    let cells = shown.iter().enumerate().map(|(at, row)| {
        let age = uptime(now.duration_since(row.since).unwrap_or_default());
        let (name, place) = (row.label().to_owned(), row.candidate.workspace.display().to_string());
        [format!("{}", at + 1), name, row.state.to_owned(), age, place]
    });
    console::say_lines(&format!("{}which {what}? ", paint::columns(&cells.collect::<Vec<_>>())));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let number = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let chosen = number.and_then(|at| several.get(at)).copied();
    chosen.with_context(|| format!("no {what} was chosen"))
}

/// The two largest units: `3d 4h`, `12m 5s`.
pub(crate) fn uptime(uptime: Duration) -> String {
    let seconds = uptime.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptimes() {
        let rows = [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7_260, "2h 1m"), (90_000, "1d 1h")];
        for (seconds, expected) in rows {
            assert_eq!(uptime(Duration::from_secs(seconds)), expected);
        }
    }
}
