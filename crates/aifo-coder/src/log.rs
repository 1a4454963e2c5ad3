//! `aifo-coder log`: prints the calls and messages of a session from its log (`spec/cli.md#log`).

mod call;
mod clock;
mod message;

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use aifo_launch::{log_directory, rotated_log, running_sessions};
use anyhow::{Context, bail};
use serde::Deserialize;

use self::call::Call;
use self::message::Message;
use crate::cli::Log;
use crate::paint::{self, Paint};
use crate::sessions;

pub(crate) fn log(flags: &Log) -> anyhow::Result<ExitCode> {
    let log = match (&flags.session, flags.follow) {
        (None, true) => newest_running().map_or_else(|| find(None), Ok)?,
        (session, _) => find(session.as_deref())?,
    };
    let mut reader = LogReader::open(&log.path)
        .with_context(|| format!("cannot read the log '{}'", log.path.display()))?;
    let printer = Printer { flags, paint: Paint::of_stdout() };
    let mut unread = Vec::new();
    loop {
        // Checked before reading, so calls logged until the session's end are still read.
        let follows = flags.follow && log.session_runs();
        reader.read(&mut unread)?;
        match printer.print(&mut unread) {
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

/// Reads a log that its session may rotate.
struct LogReader {
    path: PathBuf,
    /// The older part, until it has been read.
    older: Option<File>,
    file: File,
}

impl LogReader {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let older = File::open(rotated_log(path)).ok();
        // They are the same if the log was rotated just now.
        let older = older.filter(|older| !are_same(older.metadata(), file.metadata()));
        Ok(LogReader { path: path.to_owned(), older, file })
    }

    /// Appends the unread part of the log.
    fn read(&mut self, unread: &mut Vec<u8>) -> io::Result<()> {
        if let Some(mut older) = self.older.take() {
            older.read_to_end(unread)?;
        }
        // A rotated log gets no more lines, but may have got some since the last read.
        let was_rotated = !are_same(self.path.metadata(), self.file.metadata());
        self.file.read_to_end(unread)?;
        // Just after the rotation there may be no new file.
        if was_rotated && let Ok(file) = File::open(&self.path) {
            self.file = file;
            self.file.read_to_end(unread)?;
        }
        Ok(())
    }
}

fn are_same(one: io::Result<Metadata>, other: io::Result<Metadata>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

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

/// A line of a log.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Record {
    Call(Call),
    Message(Message),
}

impl Record {
    fn has_failed(&self) -> bool {
        match self {
            Record::Call(call) => call.has_failed(),
            Record::Message(message) => message.has_failed(),
        }
    }

    fn line(&self, paint: Paint) -> String {
        match self {
            Record::Call(call) => call.line(paint),
            Record::Message(message) => message.line(paint),
        }
    }
}

struct Printer<'a> {
    flags: &'a Log,
    paint: Paint,
}

impl Printer<'_> {
    /// Prints complete lines and keeps the rest, which is still being written or was cut off.
    fn print(&self, unread: &mut Vec<u8>) -> io::Result<()> {
        let end = unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = unread.drain(..end).collect();
        let mut text = String::new();
        for line in whole.split(|byte| *byte == b'\n') {
            // Skip damaged lines, as after a crash.
            let Ok(record) = serde_json::from_slice::<Record>(line) else { continue };
            if self.flags.failed && !record.has_failed() {
                continue;
            }
            if self.flags.json {
                text += &String::from_utf8_lossy(line);
                text.push('\n');
            } else {
                text += &record.line(self.paint);
            }
        }
        if self.flags.json { paint::write_json(&text) } else { paint::write(&text) }
    }
}
