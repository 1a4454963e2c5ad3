//! The session's log: one JSON line per call (`spec/log.md`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use aifo_proxy::CallLog;

use crate::call_stats::CallCounter;
use crate::own_directories::state_directory;

/// Number of logs that are kept; older ones are removed.
const MAX_LOGS: usize = 20;

/// How long a session's log is kept.
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

/// Opens the log in the log directory, where it outlives the session, or else in the session
/// directory. Returns its path and the writer, which also counts calls.
pub(crate) fn open(
    id: &str,
    session_dir: &Path,
    logs: CallLogRetention,
    call_counter: Arc<CallCounter>,
) -> io::Result<(PathBuf, CallLog)> {
    let name = format!("{id}.jsonl");
    let kept = log_directory().filter(|_| logs == CallLogRetention::Recent).filter(|directory| {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).is_ok()
    });
    if let Some(directory) = &kept {
        remove_old(directory);
    }
    let (path, file) = match kept.map(|directory| directory.join(&name)) {
        Some(path) => match create(&path) {
            Ok(file) => (path, file),
            // The home is read-only or full.
            Err(_) => {
                create(&session_dir.join(&name)).map(|file| (session_dir.join(&name), file))?
            }
        },
        None => create(&session_dir.join(&name)).map(|file| (session_dir.join(&name), file))?,
    };
    let log = CallLog::new(move |record| {
        call_counter.add(record);
        let Ok(mut line) = serde_json::to_vec(record) else { return };
        line.push(b'\n');
        // One write per line, so readers see whole lines. A full disk does not fail the call.
        let _ = (&file).write_all(&line);
    });
    Ok((path, log))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
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
        let _ = fs::remove_file(path);
    }
}
