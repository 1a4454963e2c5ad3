//! Undoes, in the thread that makes checkpoints.

use std::collections::HashSet;

use crate::checkpoint::{Cause, Checkpoint};
use crate::error::HistoryError;
use crate::names::Name;
use crate::path::{Path, is_selected};
use crate::range::{Range, whole};
use crate::recorder::Recorder;
use crate::report::{Selection, UndoReport, UndoRequest, of_done, of_plan};
use crate::repository::{Repository, plan as plan_repository};
use crate::restore::Restore;
use crate::undo::Trees;
use crate::version::{Call, Objects};

/// The tool of calls that are undos; the first word of their arguments is the call.
pub const UNDO: &str = "undo";

impl Recorder<'_> {
    /// Plans an undo, and carries it out if it is asked for. The error of an undo is for its caller only.
    pub(crate) fn undo(&mut self, request: &UndoRequest) -> Result<UndoReport, HistoryError> {
        let store = &self.config.store;
        let checkpoints = store.checkpoints(&self.config.session)?;
        let selection = whole(&checkpoints, &request.selection)?;
        let range = Range::of(&checkpoints, &selection)?;
        let [before, after] =
            [range.before, range.after].map(|checkpoint| store.objects(&checkpoint.id));
        let (before, after) = (before?, after?);
        let now: Objects =
            self.capture.objects().map(|(path, version)| (path.clone(), version)).collect();
        let created = match &selection {
            Selection::Call(_) => None,
            Selection::Turn | Selection::Session => Some(self.created_by_calls(&range)?),
        };
        let selects = |path: &[u8]| is_selected(path, &request.paths);
        let by_call = |path: &[u8]| created.as_ref().is_none_or(|created| created.contains(path));
        let trees = Trees { before: &before, after: &after, now: &now };
        let plan = trees.plan(selects, by_call);
        let tree = self.capture.tree();
        let mut repository = match request.paths.is_empty() {
            true => {
                let [before, after, now] =
                    [&before, &after, &now].map(|it| Repository::of(it, store));
                plan_repository(&before?, &after?, &now?, tree)
            }
            false => Default::default(),
        };
        let overlapping = range.overlapping(&selection);
        if !request.apply {
            return Ok(UndoReport { id: None, overlapping, lines: of_plan(&plan, &repository) });
        }
        let id = next_id(&checkpoints);
        let selected = match &selection {
            Selection::Call(call) => call.as_str(),
            Selection::Turn => "--turn",
            Selection::Session => "--session",
        };
        let argv = [&[selected.to_owned()], request.paths.as_slice()].concat().join(" ");
        let restore = Restore::new(store, tree, &plan)?;
        let call = Call { id: id.clone(), tool: UNDO.to_owned(), argv, exit: None };
        self.shared.state().calls.push(call);
        let done = restore.run(&plan);
        let restored = repository.run(tree, store);
        for call in self.shared.state().calls.iter_mut().filter(|call| call.id == id) {
            call.exit = Some(0);
        }
        self.checkpoint(Cause::Undo)?;
        self.flush()?;
        let restored = restored?;
        let is_changed = !restored.is_empty() || done.has_changed();
        let lines = of_done(&done, &repository, &restored);
        Ok(UndoReport { id: is_changed.then_some(id), overlapping, lines })
    }

    /// Returns the paths that a call has created, and that nobody else has changed since.
    fn created_by_calls(&self, range: &Range<'_>) -> Result<HashSet<Path>, HistoryError> {
        let span = format!("{}..{}", range.before.id, range.after.id);
        let words = ["log", "--first-parent", "--no-renames", "--reverse", "--name-status"];
        let words = words.into_iter().chain(["--format=>%H", &span, "--"]);
        let listed = self.config.store.run(words, "")?;
        let text = String::from_utf8_lossy(&listed);
        let mut created = HashSet::new();
        for commit in text.split('>').skip(1) {
            let (id, files) = commit.split_once('\n').unwrap_or((commit, ""));
            let Some(made) = range.checkpoints.iter().find(|made| made.id == id) else { continue };
            let by_call = !made.note.calls.is_empty();
            for line in files.lines() {
                let (status, name) = line.split_once('\t').unwrap_or_default();
                let Some(Name::Object(path) | Name::Directory(path)) = Name::decode(name) else {
                    continue;
                };
                let path = Path::from(path);
                match status {
                    "A" if by_call => drop(created.insert(path)),
                    // Of a turn these are the agent's.
                    "M" | "T" if by_call || made.note.turn.is_some() => {}
                    _ => drop(created.remove(&path)),
                }
            }
        }
        Ok(created)
    }
}

/// Returns the id of the next undo.
fn next_id(checkpoints: &[Checkpoint]) -> String {
    let calls = checkpoints.iter().flat_map(|it| &it.note.calls).filter(|call| call.tool == UNDO);
    let numbers = calls.filter_map(|call| call.id.strip_prefix("undo-")?.parse::<u32>().ok());
    format!("undo-{}", numbers.max().unwrap_or_default() + 1)
}
