//! `aifo-coder net`: prints the connections of a session.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use aifo_host::SessionLog;
use aifo_network::{ConnectionReader, ConnectionState, LoggedConnection};
use aifo_terminal::paint::{self, Paint};
use anyhow::{Context, bail};

use super::line::{HEAD, connection_line};
use crate::cli::NetList;
use crate::session_log::{self, POLL_INTERVAL};

pub(super) fn list(flags: &NetList) -> anyhow::Result<ExitCode> {
    let log = session_log::with_connections(flags.session.as_deref(), flags.follow)?;
    let mut reader = open(&log)?;
    let paint = Paint::of_stdout();
    let mut is_first = true;
    loop {
        // Checked before reading, so connections until the session's end are still read.
        let runs = log.session_runs();
        let mut lines = reader.read()?;
        if flags.failed {
            lines.retain(|(_, logged)| logged.has_failed());
        }
        if is_first && !flags.json {
            drop_ended(&mut lines, runs);
        }
        match print(&lines, flags.json, is_first, paint) {
            // The reader has closed the pipe.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            printed => printed.context("cannot write to stdout")?,
        }
        if !flags.follow || !runs {
            break;
        }
        is_first = false;
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the connections of a session. Errors: it had no network by name.
pub(super) fn open(log: &SessionLog) -> anyhow::Result<ConnectionReader> {
    match ConnectionReader::open(&log.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("session '{}' has no network by name\nhint: start one with: --net names", log.id)
        }
        opened => opened.with_context(|| format!("cannot read the connections of '{}'", log.id)),
    }
}

/// Removes the first of two lines of a connection, and the lines of a session that was killed.
fn drop_ended(lines: &mut Vec<(String, LoggedConnection)>, session_runs: bool) {
    let is_open = |logged: &LoggedConnection| logged.state == ConnectionState::Open;
    let ended = lines.iter().filter(|(_, logged)| !is_open(logged));
    let ended: BTreeSet<u64> = ended.map(|(_, logged)| logged.connection).collect();
    lines.retain(|(_, logged)| {
        !is_open(logged) || session_runs && !ended.contains(&logged.connection)
    });
}

fn print(
    lines: &[(String, LoggedConnection)],
    as_json: bool,
    is_first: bool,
    paint: Paint,
) -> io::Result<()> {
    if as_json {
        let text: String = lines.iter().map(|(json, _)| format!("{json}\n")).collect();
        return paint::write_json(&text);
    }
    let head = if is_first { HEAD } else { "" };
    let lines = lines.iter().map(|(_, logged)| connection_line(logged, paint));
    paint::write(&(head.to_owned() + &lines.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_connection_has_one_line() {
        let line = |connection, state| {
            (String::new(), LoggedConnection { connection, state, ..LoggedConnection::default() })
        };
        let all = || {
            vec![
                line(1, ConnectionState::Open),
                line(2, ConnectionState::Open),
                line(1, ConnectionState::Closed),
                line(3, ConnectionState::Closed),
            ]
        };
        for (session_runs, expected) in [(true, &[2, 1, 3][..]), (false, &[1, 3])] {
            let mut lines = all();
            drop_ended(&mut lines, session_runs);
            let left: Vec<u64> = lines.iter().map(|(_, logged)| logged.connection).collect();
            assert_eq!(left, expected);
        }
    }
}
