//! `aifo-coder log`: prints the calls and messages of a session from its log (`spec/cli.md#log`).

mod call;
mod clock;
mod message;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use aifo_launch::{CallLogReader, LoggedLine, LoggedRecord, log_directory, running_sessions};
use anyhow::{Context, bail};

use crate::cli::Log;
use crate::paint::{self, Paint};
use crate::sessions;

pub(crate) fn log(flags: &Log) -> anyhow::Result<ExitCode> {
    let log = match (&flags.session, flags.follow) {
        (None, true) => newest_running().map_or_else(|| find(None), Ok)?,
        (session, _) => find(session.as_deref())?,
    };
    let mut reader = CallLogReader::open(&log.path)
        .with_context(|| format!("cannot read the log '{}'", log.path.display()))?;
    let printer = Printer { flags, paint: Paint::of_stdout() };
    loop {
        // Checked before reading, so calls logged until the session's end are still read.
        let follows = flags.follow && log.session_runs();
        match printer.print(reader.read(u64::MAX)?) {
            // The reader has closed the pipe.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            printed => printed.context("cannot write to stdout")?,
        }
        if !follows {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(ExitCode::SUCCESS)
}

/// Time between two reads of a followed log.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A session's log.
struct SessionLog {
    id: String,
    path: PathBuf,
    /// When the last call was written.
    written: SystemTime,
}

impl SessionLog {
    fn session_runs(&self) -> bool {
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
    let index = sessions::the_one(prefix, &ids, "session")?;
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

struct Printer<'a> {
    flags: &'a Log,
    paint: Paint,
}

impl Printer<'_> {
    fn print(&self, lines: Vec<LoggedLine>) -> io::Result<()> {
        let mut text = String::new();
        for LoggedLine { json, record } in lines {
            let has_failed = match &record {
                LoggedRecord::Call(call) => call.has_failed(),
                LoggedRecord::Message(message) => message.has_failed(),
            };
            if self.flags.failed && !has_failed {
                continue;
            }
            if self.flags.json {
                text += &json;
                text.push('\n');
            } else {
                text += &match &record {
                    LoggedRecord::Call(call) => call::line(call, self.paint),
                    LoggedRecord::Message(message) => message::line(message, self.paint),
                };
            }
        }
        if self.flags.json { paint::write_json(&text) } else { paint::write(&text) }
    }
}
