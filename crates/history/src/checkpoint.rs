//! Notes of checkpoints.

use serde::{Deserialize, Serialize};

use crate::error::HistoryError;
use crate::git::Store;
use crate::version::Call;

/// Why a checkpoint was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The session has started.
    Start,
    /// A call is about to start.
    Call,
    /// A call has ended.
    CallEnd,
    /// A turn of the agent begins.
    Turn,
    /// A turn of the agent has ended.
    TurnEnd,
    /// The tree was quiet after changes.
    Quiet,
    /// Somebody asks for the history.
    Query,
    /// An undo has ended.
    Undo,
    /// The session ends.
    End,
}

/// The message in a commit, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When it was made, in milliseconds since 1970.
    pub time: u64,
    /// Why it was made.
    pub cause: Cause,
    /// The calls that ran since the checkpoint before; each may have made the changes.
    pub calls: Vec<Call>,
    /// The agent's turn in which the changes were made; `None` between turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
}

/// A checkpoint in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The commit.
    pub(crate) id: String,
    /// Its note.
    pub note: Note,
}

impl Note {
    pub(crate) fn names(&self, call: &str) -> bool {
        self.calls.iter().any(|it| it.id == call)
    }
}

/// Sessions have their references below it.
const SESSIONS: &str = "refs/sessions/";

/// Returns the reference to a session's last checkpoint.
pub(crate) fn reference(session: &str) -> String {
    format!("{SESSIONS}{session}")
}

impl Store {
    /// Returns the sessions' ids, the latest first.
    pub fn sessions(&self) -> Result<Vec<String>, HistoryError> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        let format = "--format=%(refname:lstrip=2)";
        let listed = self.run(["for-each-ref", "--sort=-committerdate", format, SESSIONS], "")?;
        Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
    }

    /// Returns a session's checkpoints in order. The first is the tree at its start.
    pub fn checkpoints(&self, session: &str) -> Result<Vec<Checkpoint>, HistoryError> {
        let reference = reference(session);
        let words =
            ["log", "--first-parent", "--reverse", "-z", "--format=%H %B", &reference, "--"];
        let text = self.text(words)?;
        let parse = |entry: &str| -> Option<Checkpoint> {
            let (id, note) = entry.split_once(' ')?;
            Some(Checkpoint { id: id.to_owned(), note: serde_json::from_str(note.trim()).ok()? })
        };
        let entries = text.split('\0').filter(|entry| !entry.is_empty());
        entries
            .map(|entry| parse(entry).ok_or(HistoryError::Damaged("a note cannot be read")))
            .collect()
    }
}
