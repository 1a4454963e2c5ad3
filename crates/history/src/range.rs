//! The checkpoints that an undo is about: pure.

use std::collections::BTreeSet;

use crate::checkpoint::Checkpoint;
use crate::error::HistoryError;
use crate::path::shown;
use crate::report::Selection;
use crate::version::Call;

/// The checkpoints that are undone.
pub(crate) struct Range<'a> {
    pub(crate) before: &'a Checkpoint,
    pub(crate) after: &'a Checkpoint,
    pub(crate) checkpoints: &'a [Checkpoint],
}

impl<'a> Range<'a> {
    pub(crate) fn of(all: &'a [Checkpoint], selection: &Selection) -> Result<Self, HistoryError> {
        let turn = all.iter().filter_map(|it| it.note.turn).max();
        let is_in = |checkpoint: &Checkpoint| match selection {
            Selection::Call(id) => checkpoint.note.names(id),
            Selection::Turn => turn.is_some() && checkpoint.note.turn == turn,
            Selection::Session => true,
        };
        // Before the first one there is nothing.
        let mut found =
            all.iter().enumerate().skip(1).filter(|(_, it)| is_in(it)).map(|(at, _)| at);
        let range = found.next().map(|first| (first, found.next_back().unwrap_or(first)));
        let parts = range.and_then(|(first, last)| {
            let (before, after) = (all.get(first.checked_sub(1)?)?, all.get(last)?);
            Some(Range { before, after, checkpoints: all.get(first..=last)? })
        });
        parts.ok_or_else(|| {
            HistoryError::Unknown(match selection {
                Selection::Call(id) => {
                    format!("call '{}' has changed no covered file", shown(id.as_bytes()))
                }
                Selection::Turn => "no turn of the agent is known that changed a covered file\n\
                     hint: --session puts back all that the session has changed"
                    .to_owned(),
                Selection::Session => "the session has changed no covered file".to_owned(),
            })
        })
    }

    /// Returns the calls that ran beside a call.
    pub(crate) fn overlapping(&self, selection: &Selection) -> Vec<Call> {
        let Selection::Call(id) = selection else { return Vec::new() };
        let mut others: Vec<Call> = Vec::new();
        for call in self.checkpoints.iter().flat_map(|checkpoint| &checkpoint.note.calls) {
            if call.id != *id && !others.iter().any(|known| known.id == call.id) {
                others.push(call.clone());
            }
        }
        others
    }
}

/// Returns a selection whose call has its whole id; the beginning may be given. Errors: several calls begin so.
pub(crate) fn whole(all: &[Checkpoint], selection: &Selection) -> Result<Selection, HistoryError> {
    let Selection::Call(start) = selection else { return Ok(selection.clone()) };
    Ok(call_named(all, start)?.map_or_else(|| selection.clone(), Selection::Call))
}

/// Returns the id of the call that begins so; `None` if there is none. Errors: several calls begin so.
pub fn call_named<'a>(
    checkpoints: impl IntoIterator<Item = &'a Checkpoint>,
    start: &str,
) -> Result<Option<String>, HistoryError> {
    let calls = checkpoints.into_iter().flat_map(|checkpoint| &checkpoint.note.calls);
    let ids: BTreeSet<&str> =
        calls.map(|call| call.id.as_str()).filter(|id| id.starts_with(start)).collect();
    match (ids.len(), ids.first()) {
        (0 | 1, id) => Ok(id.map(|id| (*id).to_owned())),
        _ if ids.contains(start) => Ok(Some(start.to_owned())),
        _ => {
            let start = shown(start.as_bytes());
            Err(HistoryError::Unknown(format!("more than one call begins with '{start}'")))
        }
    }
}
