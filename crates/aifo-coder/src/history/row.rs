//! A checkpoint with the files that it changed, as text and as JSON.

use std::collections::BTreeSet;

use aifo_history::{Call, ChangeKind, ChangedFile, Checkpoint};
use aifo_terminal::clock::Moment;
use aifo_terminal::console::counted;
use aifo_terminal::paint::Paint;
use aifo_types::escape_line;
use serde_json::json;

#[derive(Clone)]
pub(super) struct Row {
    pub(super) checkpoint: Checkpoint,
    pub(super) files: Vec<ChangedFile>,
}

impl Row {
    pub(super) fn text(&self, paint: Paint) -> String {
        let note = &self.checkpoint.note;
        let time = paint.faint(Moment::from_unix_ms(note.time));
        let sum = sum(&self.files);
        let mut text = String::new();
        if note.calls.is_empty() {
            text += &format!(
                "{time}  {:<8}  no call: the agent or you  {}\n",
                "-",
                paint.faint(sum.clone())
            );
        }
        for call in &note.calls {
            let id: String = call.id.chars().take(8).collect();
            text += &format!(
                "{time}  {:<8}  {}  {}\n",
                escape_line(&id),
                command(call),
                paint.faint(&sum)
            );
        }
        for file in &self.files {
            let path = escape_line(&String::from_utf8_lossy(&file.path));
            let lines = file.lines.map(|(added, removed)| signed(added, removed));
            let lines = match file.kind {
                ChangeKind::Hidden => "no longer covered".to_owned(),
                ChangeKind::Lost => "not covered: no undo brings it back".to_owned(),
                _ => lines.unwrap_or_else(|| "not text".to_owned()),
            };
            text += &format!("    {} {path}  {lines}\n", letter(file.kind));
        }
        text
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let files: Vec<_> = self
            .files
            .iter()
            .map(|file| {
                let (added, removed) = file.lines.unzip();
                json!({"path": String::from_utf8_lossy(&file.path), "change": letter(file.kind),
                    "added": added, "removed": removed, "covered": !is_uncovered(file)})
            })
            .collect();
        json!({"note": self.checkpoint.note, "files": files})
    }
}

pub(super) fn is_uncovered(file: &ChangedFile) -> bool {
    matches!(file.kind, ChangeKind::Hidden | ChangeKind::Lost)
}

fn letter(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "A",
        ChangeKind::Modified => "M",
        ChangeKind::Deleted | ChangeKind::Lost => "D",
        ChangeKind::Hidden => "U",
    }
}

fn signed(added: u64, removed: u64) -> String {
    format!("+{added} -{removed}")
}

pub(super) fn command(call: &Call) -> String {
    let mut command = call.command();
    if command.chars().count() > MAX_COMMAND {
        command = command.chars().take(MAX_COMMAND).collect::<String>() + "..";
    }
    command
}

/// The longest command that is printed, in characters.
const MAX_COMMAND: usize = 80;

pub(super) fn sum(files: &[ChangedFile]) -> String {
    let lines = files.iter().filter_map(|file| file.lines);
    let (added, removed) = lines.fold((0, 0), |(a, r), (added, removed)| (a + added, r + removed));
    let paths: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
    format!("{}, {}", counted(paths.len(), "file"), signed(added, removed))
}
