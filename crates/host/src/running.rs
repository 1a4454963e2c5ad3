//! Running sessions of this machine, and their records.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_proxy::{RunningTable, RunningTool};
use aifo_types::{Kind, Token, env};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::sync::watch;

use crate::session_dir::{
    PREFIX, TMP_SUFFIX, is_locked, is_private, runtime_directory, session_of,
};

/// The record of a session in its directory.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Its id, part of its directories' names.
    pub id: String,
    /// The name that people type, as [`new_session_name`](crate::new_session_name) makes it.
    pub name: String,
    /// The launcher's process id.
    pub pid: u32,
    /// The workspace root.
    pub workspace: PathBuf,
    /// The proxy address.
    pub url: String,
    /// The variables that pass to its tools besides those of the table, separated by commas.
    pub forwarded: String,
    /// The kinds of its sidecars, running or not.
    pub kinds: Vec<Kind>,
    /// The kinds that run.
    pub up: Vec<Kind>,
    /// `local`, or the engine name.
    pub backend: String,
    /// Its agent, if that runs in a container.
    pub agent: Option<String>,
    /// The ports of names that its stacks listen on; `None` without a network by name.
    pub name_ports: Option<Vec<u16>>,
    /// The kinds of each network stack of its tools.
    pub tool_stacks: Vec<Vec<Kind>>,
    /// When it was ready.
    pub started: SystemTime,
    /// Its log of calls.
    pub log: PathBuf,
    /// Its directory.
    pub directory: PathBuf,
    /// Its temporary directory.
    pub tmp: PathBuf,
    /// The directory that it created for the proxy socket.
    pub socket_directory: Option<PathBuf>,
}

/// Serialised form in `session.json`.
#[derive(Serialize, Deserialize)]
struct SessionRecord {
    id: String,
    #[serde(default)]
    name: String,
    pid: u32,
    workspace: PathBuf,
    url: String,
    #[serde(default)]
    forwarded: String,
    kinds: Vec<String>,
    #[serde(default)]
    up: Vec<String>,
    backend: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    name_ports: Option<Vec<u16>>,
    #[serde(default)]
    tool_stacks: Vec<Vec<String>>,
    started_unix_ms: u64,
    log: PathBuf,
    tmp: PathBuf,
    #[serde(rename = "socket_folder")]
    socket_directory: Option<PathBuf>,
}

const RECORD: &str = "session.json";
/// The record of `aifo-coder mailbox`, which only has questions.
const PROXY_RECORD: &str = "proxy.json";
const TOKEN: &str = "token";
/// Name of the file that lists running tools.
pub const RUNNING_TABLE: &str = "running";

impl SessionInfo {
    /// Returns the variables with which a client joins the session. Errors: the session has just
    /// ended, or belongs to another user.
    pub fn variables(&self) -> io::Result<Vec<(&'static str, OsString)>> {
        let token = fs::read_to_string(self.directory.join(TOKEN))?;
        Ok(self.variables_with(&token))
    }

    /// Returns the same variables for a token that the caller has.
    pub fn variables_with(&self, token: &str) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            (env::URL, self.url.clone().into()),
            (env::TOKEN, token.into()),
            (env::WORKSPACE, self.workspace.clone().into_os_string()),
        ];
        if !self.forwarded.is_empty() {
            variables.push((env::FORWARDED, self.forwarded.clone().into()));
        }
        variables
    }

    /// Writes record and token into the session directory, readable for the owner only.
    pub fn publish(&self, token: &Token) -> io::Result<()> {
        let path = self.directory.join(TOKEN);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(token.reveal().as_bytes())?;
        self.write_record(RECORD)?;
        // Commands find the log of an ended session by it. A full disk fails no session.
        if let Some(path) = logged_record(&self.log) {
            let _ = create_private(&path).and_then(|()| self.write_record_to(&path));
        }
        Ok(())
    }

    /// Returns name and workspace of the session with this log, also of an ended one.
    pub(crate) fn of_log(log: &Path) -> Option<(String, PathBuf)> {
        let record = fs::read(logged_record(log)?).ok()?;
        let record: SessionRecord = serde_json::from_slice(&record).ok()?;
        Some((record.name, record.workspace))
    }

    /// Writes the record of a process that only has questions.
    pub fn publish_questions(&self) -> io::Result<()> {
        self.write_record(PROXY_RECORD)
    }

    fn write_record(&self, name: &str) -> io::Result<()> {
        self.write_record_to(&self.directory.join(name))
    }

    /// Replaces the record atomically.
    fn write_record_to(&self, path: &Path) -> io::Result<()> {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = SessionRecord {
            id: self.id.clone(),
            name: self.name.clone(),
            pid: self.pid,
            workspace: self.workspace.clone(),
            url: self.url.clone(),
            forwarded: self.forwarded.clone(),
            kinds: names_of(&self.kinds),
            up: names_of(&self.up),
            backend: self.backend.clone(),
            agent: self.agent.clone(),
            name_ports: self.name_ports.clone(),
            tool_stacks: self.tool_stacks.iter().map(|kinds| names_of(kinds)).collect(),
            started_unix_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
            log: self.log.clone(),
            tmp: self.tmp.clone(),
            socket_directory: self.socket_directory.clone(),
        };
        let mut new = NamedTempFile::new_in(path.parent().unwrap_or(&self.directory))?;
        new.write_all(&serde_json::to_vec_pretty(&record)?)?;
        new.persist(path)?;
        Ok(())
    }

    /// Returns the running tools, the longest running first.
    pub fn running_tools(&self) -> Vec<RunningTool> {
        RunningTable::read(&self.directory.join(RUNNING_TABLE)).unwrap_or_default()
    }

    /// Reads a session record; the session need not run. `None` without a valid record: only the
    /// caller may have access to the directory, and paths that are read or removed later must match
    /// the id in its name.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        Self::read_from(directory, RECORD)
    }

    fn read_from(directory: &Path, record: &str) -> Option<Self> {
        if !is_private(directory) {
            return None;
        }
        let record: SessionRecord =
            serde_json::from_slice(&fs::read(directory.join(record)).ok()?).ok()?;
        let is_named = |path: &Path, name: String| path.file_name() == Some(OsStr::new(&name));
        // Tools write to a session's temporary directory, whose name has a suffix.
        let name = format!("{PREFIX}{}", record.id);
        let follows = session_of(&name) == Some(record.id.as_str())
            && is_named(directory, name)
            && is_named(&record.tmp, format!("{PREFIX}{}{TMP_SUFFIX}", record.id))
            && is_named(&record.log, format!("{}.jsonl", record.id));
        if !follows {
            return None;
        }
        Some(SessionInfo {
            id: record.id,
            name: record.name,
            pid: record.pid,
            workspace: record.workspace,
            url: record.url,
            forwarded: record.forwarded,
            kinds: parse_kinds(&record.kinds),
            up: parse_kinds(&record.up),
            backend: record.backend,
            agent: record.agent,
            name_ports: record.name_ports,
            tool_stacks: record.tool_stacks.iter().map(|kinds| parse_kinds(kinds)).collect(),
            started: UNIX_EPOCH + Duration::from_millis(record.started_unix_ms),
            log: record.log,
            directory: directory.to_owned(),
            tmp: record.tmp,
            socket_directory: record.socket_directory,
        })
    }
}

/// Returns the record of the session with this log, which is kept as long as the log.
pub(crate) fn logged_record(log: &Path) -> Option<PathBuf> {
    let state = log.parent().filter(|parent| parent.ends_with("aifo/log"))?.parent()?;
    Some(state.join("sessions").join(log.file_stem()?).with_extension("json"))
}

fn create_private(record: &Path) -> io::Result<()> {
    let parent = record.parent().unwrap_or(record);
    DirBuilder::new().recursive(true).mode(0o700).create(parent)
}

/// Returns this user's running sessions, oldest first. Skips directories of killed launchers.
pub fn running_sessions() -> Vec<SessionInfo> {
    running_with(&[RECORD])
}

/// Returns this user's running sessions and processes of `aifo-coder mailbox`, which may have questions about
/// calls, oldest first.
pub fn asking_sessions() -> Vec<SessionInfo> {
    running_with(&[RECORD, PROXY_RECORD])
}

fn running_with(records: &[&str]) -> Vec<SessionInfo> {
    let held = session_directories(&runtime_directory()).filter(|directory| is_locked(directory));
    let read = |directory: PathBuf| {
        records.iter().find_map(|record| SessionInfo::read_from(&directory, record))
    };
    let mut sessions: Vec<_> = held.filter_map(read).collect();
    sessions.sort_by_key(|session| session.started);
    sessions
}

/// Lists session directories below a parent, including temporary directories.
pub(crate) fn session_directories(place: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let sessions =
        entries.filter(|entry| entry.file_name().to_str().and_then(session_of).is_some());
    sessions.map(|entry| entry.path())
}

/// Rewrites the record whenever a sidecar starts or stops.
pub async fn update_record(mut info: SessionInfo, mut up: watch::Receiver<BTreeSet<Kind>>) {
    loop {
        let now = in_order(&info.kinds, &up.borrow_and_update());
        if now != info.up {
            info.up = now;
            if let Err(error) = info.write_record(RECORD) {
                tracing::warn!(%error, "cannot update the session record");
            }
        }
        if up.changed().await.is_err() {
            return;
        }
    }
}

/// Returns the running kinds in the order of `kinds`.
pub fn in_order(kinds: &[Kind], up: &BTreeSet<Kind>) -> Vec<Kind> {
    kinds.iter().filter(|kind| up.contains(*kind)).cloned().collect()
}

fn names_of(kinds: &[Kind]) -> Vec<String> {
    kinds.iter().map(Kind::to_string).collect()
}

fn parse_kinds(names: &[String]) -> Vec<Kind> {
    names.iter().filter_map(|kind| Kind::parse(kind).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_dir::SessionDir;

    const ID: &str = "5d0c3b7f9a21e846";

    fn record(id: &str, tmp: &str, log: &str) -> String {
        serde_json::json!({
            "id": id, "pid": 1, "workspace": "/w", "url": "unix:///s", "kinds": [],
            "backend": "local", "started_unix_ms": 0, "log": log, "tmp": tmp,
        })
        .to_string()
    }

    #[test]
    fn a_record_is_accepted_if_its_paths_match_its_id() {
        let parent = tempfile::tempdir().unwrap();
        let directory = SessionDir::create(parent.path().join(format!("aifo-{ID}"))).unwrap();
        let tmp = format!("/somewhere/aifo-{ID}-tmp");
        let log = format!("/state/{ID}.jsonl");
        let other = "0123456789abcdef";
        let rows = [
            (record(ID, &tmp, &log), true),
            (record(other, &tmp, &log), false),
            (record(ID, "/home/me/precious", &log), false),
            (record(ID, &format!("/somewhere/aifo-{other}-tmp"), &log), false),
            (record(ID, &format!("{tmp}/.."), &log), false),
            (record(ID, &tmp, "/home/me/.ssh/id_rsa"), false),
        ];
        for (text, expected) in rows {
            fs::write(directory.path().join(RECORD), &text).unwrap();
            assert_eq!(SessionInfo::read(directory.path()).is_some(), expected, "{text}");
        }
        fs::write(directory.path().join(RECORD), record(ID, &tmp, &log)).unwrap();
        // A tool's own, in the session's temporary directory.
        let tmp = SessionDir::create(parent.path().join(format!("aifo-{ID}-tmp"))).unwrap();
        let id = format!("{ID}-tmp");
        let forged = record(&id, &format!("/x/aifo-{id}-tmp"), &format!("/x/{id}.jsonl"));
        fs::write(tmp.path().join(RECORD), forged).unwrap();
        assert!(SessionInfo::read(tmp.path()).is_none(), "tools write there");

        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory.path(), open).unwrap();
        assert!(SessionInfo::read(directory.path()).is_none(), "others could have entered");
    }
}
