//! A session history as a list of changes (`spec/web.md#history`).

use serde::{Deserialize, Serialize};

use crate::block::Block;

/// One change of a history. A journal is a list of these, one a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Facts(SessionFacts),
    /// Adds or replaces an entry.
    Put(u64, Block),
    /// Cuts an entry's text at a length and appends.
    Text(u64, usize, String),
    Remove(u64),
    Plan(Vec<PlanEntry>),
    Usage(String),
}

/// Facts of a session that its list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionFacts {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) agent: String,
    pub(crate) cwd: String,
    /// Milliseconds since 1970.
    pub(crate) created: u64,
    pub(crate) changed: u64,
    /// The agent id of the session.
    pub(crate) agent_session: Option<String>,
    pub(crate) closed: bool,
    /// Entries that were removed as the history was too long.
    pub(crate) removed: u64,
}

/// An entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanEntry {
    pub(crate) content: String,
    pub(crate) status: String,
}
