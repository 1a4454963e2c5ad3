//! Undos, for users.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::path::shown;
use crate::repository::RepositoryPlan;
use crate::restore::Done;
use crate::undo::{Plan, Target};
use crate::version::{Call, Version};

/// The changes that are undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selection {
    /// One call, by its id.
    Call(String),
    /// The last turn of the agent that changed something.
    Turn,
    /// Everything since the session's start.
    Session,
}

/// A request for an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRequest {
    /// The changes that are undone.
    pub selection: Selection,
    /// Only these files and directories, relative to the workspace; all if there are none.
    pub paths: Vec<String>,
    /// Changes the workspace; else it is only said what would be done.
    pub apply: bool,
}

/// The result of an undo, or of its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// The id of the undo, with which it can be undone; `None` if nothing was changed.
    pub id: Option<String>,
    /// Other calls that ran meanwhile; each may have made a part of the changes.
    pub overlapping: Vec<Call>,
    /// One line per path.
    pub lines: Vec<UndoLine>,
}

impl fmt::Display for UndoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for call in &self.overlapping {
            writeln!(f, "meanwhile ran, so changes may be its: {}", call.command())?;
        }
        for UndoLine { action, path, why } in &self.lines {
            let why = if why.is_empty() { String::new() } else { format!("  # {why}") };
            writeln!(f, "  {:<8} {path}{why}", action.word())?;
        }
        Ok(())
    }
}

/// The action on one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoLine {
    /// The kind of action.
    pub action: UndoAction,
    /// The path, safe for a terminal.
    pub path: String,
    /// Why it is kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UndoAction {
    /// It gets its earlier content.
    Restore,
    /// Later changes are merged into its earlier content.
    Merge,
    /// The call created it.
    Delete,
    /// It stays as it is.
    Keep,
}

impl UndoAction {
    /// Returns the word for users.
    pub fn word(self) -> &'static str {
        match self {
            UndoAction::Restore => "restore",
            UndoAction::Merge => "merge",
            UndoAction::Delete => "delete",
            UndoAction::Keep => "keep",
        }
    }
}

/// Returns lines for a plan.
pub(crate) fn of_plan(plan: &Plan, repository: &RepositoryPlan) -> Vec<UndoLine> {
    let mut lines: Vec<UndoLine> = plan
        .steps
        .iter()
        // A directory goes and comes with its files.
        .filter(|step| {
            !step.now.is_some_and(Version::is_directory) || step.to != Target::Version(None)
        })
        .map(|step| {
            let action = match step.to {
                Target::Version(None) => UndoAction::Delete,
                Target::Version(Some(_)) => UndoAction::Restore,
                Target::Merge { .. } => UndoAction::Merge,
            };
            line(action, &step.path, "")
        })
        .collect();
    let kept = plan.kept.iter();
    lines.extend(kept.map(|(path, why)| line(UndoAction::Keep, path, why.reason())));
    let steps = repository.steps.iter();
    lines.extend(steps.map(|step| {
        let action = if step.removes() { UndoAction::Delete } else { UndoAction::Restore };
        line(action, &git_path(&step.path), "")
    }));
    lines.extend(of_repository(repository));
    lines
}

/// Returns the lines of an undo that was carried out.
pub(crate) fn of_done(
    done: &Done,
    repository: &RepositoryPlan,
    restored: &[Vec<u8>],
) -> Vec<UndoLine> {
    let parts = [
        (UndoAction::Restore, &done.restored),
        (UndoAction::Merge, &done.merged),
        (UndoAction::Delete, &done.removed),
    ];
    let mut lines: Vec<UndoLine> = parts
        .into_iter()
        .flat_map(|(action, paths)| paths.iter().map(move |path| line(action, path, "")))
        .collect();
    let kept = done.kept.iter();
    lines.extend(kept.map(|(path, why)| line(UndoAction::Keep, path, why.reason())));
    lines.extend(restored.iter().map(|path| line(UndoAction::Restore, &git_path(path), "")));
    lines.extend(of_repository(repository));
    lines
}

fn of_repository(plan: &RepositoryPlan) -> impl Iterator<Item = UndoLine> {
    plan.kept.iter().map(|(path, why)| line(UndoAction::Keep, &git_path(path), why))
}

fn git_path(path: &[u8]) -> Vec<u8> {
    [b".git/", path].concat()
}

fn line(action: UndoAction, path: &[u8], why: &str) -> UndoLine {
    UndoLine { action, path: shown(path), why: why.to_owned() }
}
