//! `aifo-coder log`: the calls of a session, from the JSON lines it writes (`spec/cli.md#log`).

mod call;
mod clock;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use aifo_launch::{log_directory, running_sessions};
use anyhow::{Context, bail};

use self::call::Call;
use crate::cli::Log;
use crate::paint::{self, Paint};
use crate::sessions;

pub(crate) fn log(flags: &Log) -> anyhow::Result<ExitCode> {
    let log = find(flags.session.as_deref())?;
    let mut file = File::open(&log.path)
        .with_context(|| format!("cannot read the log '{}'", log.path.display()))?;
    let printer = Printer { flags, paint: Paint::of_stdout() };
    let mut unread = Vec::new();
    loop {
        // Asked before reading: what is written until the end is then read after it.
        let follows = flags.follow && log.session_runs();
        file.read_to_end(&mut unread)?;
        match printer.print(&mut unread) {
            // Whoever read this has seen enough.
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

/// Between two looks at a log that is followed.
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

/// The log of the session whose id begins so, or the one that was written last.
fn find(prefix: Option<&str>) -> anyhow::Result<SessionLog> {
    let mut logs = logs();
    let Some(prefix) = prefix else {
        let Some(newest) = logs.pop() else {
            bail!(
                "there is no log yet\nhint: every session writes one; see 'aifo-coder run --help'"
            )
        };
        return Ok(newest);
    };
    let ids: Vec<&str> = logs.iter().map(|log| log.id.as_str()).collect();
    let index = sessions::the_one(prefix, &ids, "session")?;
    Ok(logs.swap_remove(index))
}

/// All logs there are, the one that was written last at the end: of sessions that ended too.
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
    /// Prints the whole lines, and leaves the rest: it is being written, or its writer was killed.
    fn print(&self, unread: &mut Vec<u8>) -> io::Result<()> {
        let end = unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = unread.drain(..end).collect();
        let mut text = String::new();
        for line in whole.split(|byte| *byte == b'\n') {
            // What is no call is a line that was cut off by something worse than us.
            let Ok(call) = serde_json::from_slice::<Call>(line) else { continue };
            if self.flags.failed && !call.has_failed() {
                continue;
            }
            if self.flags.json {
                text += &String::from_utf8_lossy(line);
                text.push('\n');
            } else {
                text += &call.line(self.paint);
            }
        }
        if self.flags.json { paint::write_json(&text) } else { paint::write(&text) }
    }
}
