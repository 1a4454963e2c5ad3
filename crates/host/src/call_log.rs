//! The session log: one JSON line per call, and per message of the launcher (`spec/log.md`).

mod reader;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use aifo_proxy::CallLog;
use aifo_wire::Limits;
use serde::{Deserialize, Serialize};

use crate::call_stats::CallCounter;
use crate::log_file::{LogFile, append, connections_path, rotated_log};
use crate::own_directories::state_directory;
use crate::running::logged_record;

pub use reader::{CallLogReader, LoggedLine, LoggedMessage, LoggedRecord};

/// Number of logs that are kept; older ones are removed.
const MAX_LOGS: usize = 20;

/// How long a session log is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallLogRetention {
    /// Together with those of the latest sessions.
    #[default]
    Recent,
    /// Until the session ends: in its directory.
    SessionOnly,
}

/// Returns `$XDG_STATE_HOME/aifo/log`, else `~/.local/state/aifo/log`. `None` without a home, as in
/// some services.
pub fn log_directory() -> Option<PathBuf> {
    state_directory().map(|state| state.join("log"))
}

/// The severity of a message in a session log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageLevel {
    /// A failure.
    Error,
    /// Something that the user should know.
    Warn,
    /// An event, such as the start of a sidecar.
    Info,
    /// A decision.
    Debug,
}

impl From<tracing::Level> for MessageLevel {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => MessageLevel::Error,
            tracing::Level::WARN => MessageLevel::Warn,
            tracing::Level::INFO => MessageLevel::Info,
            _ => MessageLevel::Debug,
        }
    }
}

/// Writes the launcher messages to a session log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageLog {
    file: Arc<Mutex<LogFile>>,
    /// The limit of a message, in bytes.
    max_text: usize,
}

#[derive(Serialize)]
struct Message<'a> {
    time: u64,
    level: MessageLevel,
    message: &'a str,
}

impl MessageLog {
    /// Appends a message. A full disk is ignored.
    pub fn append(&self, level: MessageLevel, message: &str) {
        let message = &message[..message.floor_char_boundary(self.max_text)];
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        append(&self.file, &Message { time, level, message });
    }
}

/// The writers of an open log, and its path.
#[derive(Debug)]
pub struct OpenLog {
    /// The path of the log.
    pub path: PathBuf,
    /// The writer of calls, which also counts them.
    pub calls: CallLog,
    /// The writer of the launcher messages.
    pub messages: MessageLog,
}

/// Opens the log in the log directory, where it outlives the session, or else in the session
/// directory. The log is rotated before it exceeds [`Limits::max_log`] bytes.
pub fn open(
    id: &str,
    session_dir: &Path,
    logs: CallLogRetention,
    limits: &Limits,
    call_counter: Arc<CallCounter>,
) -> io::Result<OpenLog> {
    let max = limits.max_log;
    let name = format!("{id}.jsonl");
    let kept = log_directory().filter(|_| logs == CallLogRetention::Recent).filter(|directory| {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).is_ok()
    });
    if let Some(directory) = &kept {
        remove_old(directory);
    }
    let kept = kept.map(|directory| LogFile::create(&directory.join(&name), max));
    let file = match kept {
        Some(Ok(file)) => file,
        // There is no home, or it is read-only or full.
        Some(Err(_)) | None => LogFile::create(&session_dir.join(&name), max)?,
    };
    let path = file.path.clone();
    let file = Arc::new(Mutex::new(file));
    let messages = MessageLog { file: Arc::clone(&file), max_text: limits.max_log_text };
    let calls = CallLog::new(move |record| {
        call_counter.add(record);
        append(&file, record);
    });
    Ok(OpenLog { path, calls, messages })
}

fn remove_old(directory: &Path) {
    let logs = fs::read_dir(directory).into_iter().flatten().flatten();
    let logs = logs.filter(|entry| entry.path().extension().is_some_and(|e| e == "jsonl"));
    let modified = |entry: &fs::DirEntry| {
        entry.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let mut logs: Vec<_> = logs.map(|entry| (modified(&entry), entry.path())).collect();
    logs.sort();
    let surplus = (logs.len() + 1).saturating_sub(MAX_LOGS);
    for (_, path) in logs.into_iter().take(surplus) {
        // Another session may remove logs at the same time.
        if let Some(record) = logged_record(&path) {
            let _ = fs::remove_file(record);
        }
        for path in [connections_path(&path), path] {
            let _ = fs::remove_file(rotated_log(&path));
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_logs_are_removed_with_their_connections() {
        let directory = tempfile::tempdir().unwrap();
        let log = |number: usize| directory.path().join(format!("{number:02}.jsonl"));
        let now = SystemTime::now();
        for number in 0..=MAX_LOGS {
            let (log, age) = (log(number), std::time::Duration::from_secs(number as u64));
            for path in [&connections_path(&log), &log] {
                fs::write(rotated_log(path), "").unwrap();
                let file = fs::File::create(path).unwrap();
                file.set_modified(now.checked_sub(age).unwrap()).unwrap();
            }
        }
        remove_old(directory.path());
        let left = fs::read_dir(directory.path()).unwrap().flatten().count();
        assert_eq!(left, 4 * (MAX_LOGS - 1), "there is room for a new one");
        assert!(log(0).exists() && !log(MAX_LOGS).exists() && !log(MAX_LOGS - 1).exists());
    }
}
