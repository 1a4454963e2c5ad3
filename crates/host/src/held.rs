//! The directories of held sessions (`spec/attach.md#the-holder`).

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::remove_tree::remove_tree;
use crate::running::session_directories;
use crate::session_dir::{
    HELD_SUFFIX, PREFIX, SessionDir, is_locked, is_private, is_session_id, runtime_directory,
    session_of,
};

const RECORD: &str = "held.json";
/// The name of a file with the number of clients; a holder writes it.
const CLIENTS: &str = "clients";
/// The name of a file with the end that no client has seen; a holder writes it.
const END: &str = "ended";
/// How long an end waits for a client.
const END_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A held session, as the user sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRecord {
    /// The session id.
    pub id: String,
    /// The directory in which it was started.
    pub directory: PathBuf,
    /// The agent or command, with its arguments.
    pub command: String,
    /// The holder's process id.
    pub pid: u32,
    /// When it was started.
    pub started_unix_ms: u64,
}

/// The directory of a running holder, locked by this process. Drop removes it.
#[derive(Debug)]
pub struct HeldDirectory(SessionDir);

impl HeldDirectory {
    /// Creates and locks the directory of a session with this id and command, started in the current directory.
    /// Errors: the id is invalid or in use.
    pub fn create(id: &str, command: &OsStr) -> io::Result<Self> {
        if !is_session_id(id) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let held = SessionDir::create(path_of(id))?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = HeldRecord {
            id: id.to_owned(),
            directory: std::env::current_dir().unwrap_or_default(),
            command: command.to_string_lossy().into_owned(),
            pid: std::process::id(),
            started_unix_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
        };
        let mut file = NamedTempFile::new_in(held.path())?;
        file.write_all(&serde_json::to_vec_pretty(&record)?)?;
        file.persist(held.path().join(RECORD))?;
        Ok(HeldDirectory(held))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Removes the directory, unless it has an end that no client has seen.
    pub fn close(self) {
        if self.path().join(END).exists() {
            self.0.keep();
        }
    }
}

/// A held session of this user.
#[derive(Clone, Debug)]
pub struct HeldSession {
    /// Its record.
    pub record: HeldRecord,
    /// Its directory.
    pub directory: PathBuf,
    /// Its state.
    pub state: HeldState,
}

/// The state of a held session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldState {
    /// It runs, with this number of clients.
    Running(usize),
    /// It has ended at this time, and no client has seen that.
    Ended(SystemTime),
    /// Its holder was killed, so its command was hung up.
    Lost,
}

impl HeldSession {
    fn read(directory: &Path) -> Option<Self> {
        let name = directory.file_name()?.to_str()?;
        let id = session_of(name).filter(|_| name.ends_with(HELD_SUFFIX))?;
        if !is_private(directory) {
            return None;
        }
        let record: HeldRecord =
            serde_json::from_slice(&fs::read(directory.join(RECORD)).ok()?).ok()?;
        if record.id != id {
            return None;
        }
        let state = match is_locked(directory) {
            true => {
                let clients = fs::read_to_string(directory.join(CLIENTS)).unwrap_or_default();
                HeldState::Running(clients.trim().parse().unwrap_or(0))
            }
            false => match fs::metadata(directory.join(END)).and_then(|file| file.modified()) {
                Ok(time) => HeldState::Ended(time),
                Err(_) => HeldState::Lost,
            },
        };
        Some(HeldSession { record, directory: directory.to_owned(), state })
    }

    /// Returns the session with this id.
    pub fn find(id: &str) -> Option<Self> {
        Self::read(&path_of(id))
    }

    /// Returns when it was started.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.record.started_unix_ms)
    }

    /// Removes the directory of one that has ended.
    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.directory)
    }
}

/// Returns this user's held sessions, oldest first.
pub fn held_sessions() -> Vec<HeldSession> {
    let directories = session_directories(&runtime_directory());
    let mut sessions: Vec<_> =
        directories.filter_map(|directory| HeldSession::read(&directory)).collect();
    sessions.sort_by_key(|session| session.record.started_unix_ms);
    sessions
}

/// Returns whether a directory is a holder's with an end that waits for a client.
pub(crate) fn has_unread_end(directory: &Path) -> bool {
    let is_held = directory.file_name().and_then(|name| name.to_str());
    let time = fs::metadata(directory.join(END)).and_then(|file| file.modified());
    is_held.is_some_and(|name| name.ends_with(HELD_SUFFIX))
        && time.is_ok_and(|time| time.elapsed().unwrap_or_default() < END_KEPT)
}

fn path_of(id: &str) -> PathBuf {
    runtime_directory().join(format!("{PREFIX}{id}{HELD_SUFFIX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_dir::new_id;

    #[test]
    fn a_held_session_runs_ends_or_is_lost() {
        let id = new_id().unwrap();
        let held = HeldDirectory::create(&id, "codex".as_ref()).unwrap();
        let path = held.path().to_owned();
        assert!(HeldDirectory::create(&id, "codex".as_ref()).is_err());
        let state = || HeldSession::find(&id).map(|session| session.state);
        assert_eq!(state(), Some(HeldState::Running(0)));
        fs::write(path.join(CLIENTS), "2").unwrap();
        assert_eq!(state(), Some(HeldState::Running(2)));
        assert!(held_sessions().iter().any(|session| session.record.command == "codex"));

        fs::write(path.join(END), "").unwrap();
        held.close();
        assert!(matches!(state(), Some(HeldState::Ended(_))));
        assert!(has_unread_end(&path));
        let old = SystemTime::now() - END_KEPT - Duration::from_secs(1);
        fs::File::open(path.join(END)).unwrap().set_modified(old).unwrap();
        assert!(!has_unread_end(&path));
        fs::remove_file(path.join(END)).unwrap();
        assert_eq!(state(), Some(HeldState::Lost));
        HeldSession::find(&id).unwrap().remove().unwrap();
        assert_eq!(state(), None);

        let held = HeldDirectory::create(&id, "codex".as_ref()).unwrap();
        held.close();
        assert!(!path.exists(), "an end that a client has seen leaves nothing");
    }

    #[test]
    fn ids_are_checked() {
        for id in ["", "../../../../etc", "5d0c3b7f9a21e84", "5D0C3B7F9A21E846"] {
            let created = HeldDirectory::create(id, "".as_ref());
            assert!(created.is_err(), "{id}");
        }
    }
}
