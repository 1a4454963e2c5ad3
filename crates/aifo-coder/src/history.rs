//! `aifo-coder changes` and `aifo-coder undo`: `spec/history.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aifo_agents::trusted_programs_here;
use aifo_config::UsageError;
use aifo_history::{
    Call, ChangeKind, ChangedFile, Checkpoint, Selection, Store, UNDO, UndoAction, UndoReport,
    UndoRequest, call_named, is_selected,
};
use aifo_host::{
    Candidate, ControlClient, ControlError, HistorySettings, SessionHistory, SessionInfo,
    SessionLog, history_store, running_sessions, session_logs, sessions_meant,
};
use aifo_terminal::clock::Moment;
use aifo_terminal::console::{self, counted};
use aifo_terminal::paint::{self, Paint};
use aifo_types::escape_line;
use anyhow::{Context, bail};
use serde_json::json;

use crate::choice;
use crate::cli::{Changes, Undo};
use crate::session_log;

pub(crate) async fn changes(flags: &Changes) -> anyhow::Result<ExitCode> {
    let meant = Meant::of(&flags.words).await?;
    let mut rows = meant.rows.clone();
    if let Some(call) = &meant.call {
        rows.retain(|row| row.checkpoint.note.calls.iter().any(|it| it.id == *call));
    }
    for row in &mut rows {
        row.files.retain(|file| is_selected(&file.path, &meant.paths));
    }
    rows.retain(|row| !row.files.is_empty());
    if flags.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        paint::print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        console::say(format_args!("session '{}' has changed no covered file", meant.name));
    }
    let paint = Paint::of_stdout();
    for row in &rows {
        paint::write(&row.text(paint))?;
        if flags.patch {
            paint::print(&meant.store.patch(&row.checkpoint, &meant.paths)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn undo(flags: &Undo) -> anyhow::Result<ExitCode> {
    let meant = Meant::of(&flags.words).await?;
    if !meant.is_named && !choice::here().starts_with(&meant.workspace) {
        let (name, workspace) = (&meant.name, meant.workspace.display());
        bail!("no session of this directory\nhint: in '{workspace}': aifo-coder undo {name}");
    }
    let selection = match (flags.turn, flags.session, &meant.call) {
        (true, ..) => Selection::Turn,
        (_, true, _) => Selection::Session,
        (_, _, Some(call)) => Selection::Call(call.clone()),
        (_, _, None) => {
            let last = last_call(&meant.rows).map(|call| call.id.clone());
            Selection::Call(last.context("no call of the session is left to undo")?)
        }
    };
    if let Selection::Call(id) = &selection {
        let call =
            meant.rows.iter().flat_map(|row| &row.checkpoint.note.calls).find(|it| it.id == *id);
        call.iter().try_for_each(|call| paint::print(&format!("undo of: {}\n", command(call))))?;
    }
    let mut request = UndoRequest { selection, paths: meant.paths.clone(), apply: false };
    let plan = meant.undo(request.clone()).await?;
    paint::print(&plan.to_string())?;
    if plan.lines.iter().all(|line| line.action == UndoAction::Keep) {
        console::say("nothing to put back");
        return Ok(if plan.lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if !flags.yes && !confirmed()? {
        console::say("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    request.apply = true;
    let done = meant.undo(request).await?;
    let is_new = |line: &&aifo_history::UndoLine| {
        line.action == UndoAction::Keep && !plan.lines.contains(line)
    };
    let failed: Vec<_> = done.lines.iter().filter(is_new).cloned().collect();
    paint::print(&UndoReport { lines: failed, ..UndoReport::default() }.to_string())?;
    match &done.id {
        Some(id) => console::say(format_args!("put back; to undo this: aifo-coder undo {id}")),
        None => console::say("nothing was put back"),
    }
    let is_whole = done.lines.iter().all(|line| line.action != UndoAction::Keep);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a line about what a session has changed and what could not be undone; `None` if it changed nothing.
pub(crate) fn summary(settings: &HistorySettings, id: &str) -> Option<String> {
    let files = settings.store.total(id).ok().filter(|files| !files.is_empty())?;
    let (sum, state) = (sum(&files), state(&settings.store));
    Some(format!("changed {sum}; see 'aifo-coder changes' and 'undo'; {state}"))
}

/// Returns the size of a store, and what its last session did not cover.
pub(crate) fn state(store: &Store) -> String {
    let mut text = format!("{} MiB of checkpoints", store.size() >> 20);
    let last = store.sessions().ok().and_then(|sessions| sessions.into_iter().next());
    let uncovered = last.and_then(|last| store.uncovered(&last).ok()).unwrap_or_default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    uncovered.iter().for_each(|(_, why)| *counts.entry(why.word()).or_default() += 1);
    for (at, (word, count)) in counts.iter().enumerate() {
        let start = if at == 0 { "; not covered: " } else { ", " };
        text += &format!("{start}{count} {word}");
    }
    text
}

/// Returns what each call changed, by the calls' ids: empty without a history.
pub(crate) fn sums(log: &SessionLog) -> BTreeMap<String, String> {
    let Ok(Some(store)) = store(&log.workspace) else { return BTreeMap::new() };
    let mut files: BTreeMap<String, Vec<ChangedFile>> = BTreeMap::new();
    for (checkpoint, changed) in store.changes(&log.id).unwrap_or_default() {
        for call in &checkpoint.note.calls {
            files.entry(call.id.clone()).or_default().extend(changed.iter().cloned());
        }
    }
    files.retain(|_, files| !files.is_empty());
    files.into_iter().map(|(id, files)| (id, sum(&files))).collect()
}

fn sum(files: &[ChangedFile]) -> String {
    let lines = files.iter().filter_map(|file| file.lines);
    let (added, removed) = lines.fold((0, 0), |(a, r), (added, removed)| (a + added, r + removed));
    let paths: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
    format!("{}, {}", counted(paths.len(), "file"), signed(added, removed))
}

/// Removes the checkpoints of the current directory's project.
pub(crate) fn clear(is_dry_run: bool) -> anyhow::Result<ExitCode> {
    let workspace = aifo_host::default_workspace(&choice::here());
    let Some(store) = store(&workspace)?.filter(Store::exists) else {
        console::say(format_args!("'{}' has no checkpoints", workspace.display()));
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(session) = running_sessions().iter().find(|session| session.workspace == workspace)
    {
        bail!(
            "session '{}' makes checkpoints\nhint: end it first: aifo-coder stop {0}",
            session.name
        );
    }
    let size = store.size() >> 20;
    if !is_dry_run {
        store.clear().context("cannot remove the checkpoints")?;
    }
    let what = if is_dry_run { "would remove" } else { "removed" };
    console::say(format_args!("{what} the checkpoints of '{}', {size} MiB", workspace.display()));
    Ok(ExitCode::SUCCESS)
}

/// A session whose history is meant, the call in it, and the paths.
struct Meant {
    store: Store,
    id: String,
    name: String,
    /// The command line names it.
    is_named: bool,
    workspace: PathBuf,
    running: Option<SessionInfo>,
    rows: Vec<Row>,
    call: Option<String>,
    paths: Vec<String>,
}

#[derive(Clone)]
struct Row {
    checkpoint: Checkpoint,
    files: Vec<ChangedFile>,
}

impl Meant {
    async fn of(words: &[String]) -> anyhow::Result<Self> {
        let logs = session_logs();
        let candidates: Vec<_> = logs.iter().map(Candidate::from).collect();
        let names_session = words.first().is_some_and(|word| {
            !Path::new(word).exists()
                && !sessions_meant(Some(word), &choice::here(), &candidates).is_empty()
        });
        let (named, mut words) = words.split_at(usize::from(names_session));
        let log = session_log::select(named.first().map(String::as_str), false)?;
        let running = running_sessions().into_iter().find(|session| session.id == log.id);
        if let Some(running) = &running {
            match ControlClient::connect(running) {
                Err(ControlError::NoRules(_)) => bail!(none(&log)),
                connected => connected?.checkpoint().await?,
            }
        }
        let store = store(&log.workspace)?;
        let Some(store) = store.filter(Store::exists) else { bail!(none(&log)) };
        if !store.sessions()?.contains(&log.id) {
            bail!(none(&log));
        }
        let rows = store.changes(&log.id)?;
        let rows: Vec<_> =
            rows.into_iter().map(|(checkpoint, files)| Row { checkpoint, files }).collect();
        let mut call = None;
        if let Some((first, rest)) = words.split_first() {
            let named = call_named(rows.iter().map(|row| &row.checkpoint), first);
            call = named.map_err(|error| UsageError(error.to_string()))?;
            if call.is_some() {
                words = rest;
            }
        }
        let here = choice::here();
        let paths = words.iter().map(|word| relative(&log.workspace, &here, word));
        let paths = paths.collect::<anyhow::Result<Vec<_>>>()?;
        let SessionLog { id, name, workspace, .. } = log;
        Ok(Meant {
            store,
            id,
            name,
            is_named: names_session,
            workspace,
            running,
            rows,
            call,
            paths,
        })
    }

    /// Lets the session undo, or does it if the session has ended.
    async fn undo(&self, request: UndoRequest) -> anyhow::Result<UndoReport> {
        if let Some(running) = &self.running {
            return Ok(ControlClient::connect(running)?.undo(request).await?);
        }
        let settings = HistorySettings { store: self.store.clone(), with_secrets: false };
        let history = SessionHistory::start(settings, &self.id, &self.workspace)?;
        let report = history.undo(request).await;
        history.close().await;
        Ok(report?)
    }
}

fn store(workspace: &Path) -> anyhow::Result<Option<Store>> {
    history_store(workspace, &trusted_programs_here()).context("git is needed for the history")
}

fn none(log: &SessionLog) -> String {
    format!(
        "session '{}' has no history\nhint: it needs git and the key history.enabled; 'clean --history' removes it",
        log.name
    )
}

/// Returns the last call that is neither an undo nor undone, and that changed what is covered.
fn last_call(rows: &[Row]) -> Option<&Call> {
    let mut undone = BTreeSet::new();
    let is_lost = |row: &&Row| {
        !row.files.is_empty() && row.files.iter().all(|file| file.kind == ChangeKind::Lost)
    };
    let rows = rows.iter().rev().filter(|row| !is_lost(row));
    let calls = rows.flat_map(|row| row.checkpoint.note.calls.iter().rev());
    // A call can be in several checkpoints.
    calls.into_iter().find(|call| {
        let is_undone = undone.contains(&call.id);
        if call.tool == UNDO && !is_undone {
            undone.insert(call.argv.clone());
        }
        call.tool != UNDO && !is_undone
    })
}

/// Returns a path relative to the workspace. Errors: it is outside.
fn relative(workspace: &Path, here: &Path, word: &str) -> anyhow::Result<String> {
    let path = here.join(word);
    // Not resolved: the file may be gone, and a link is an object of its own.
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => drop(plain.pop()),
            std::path::Component::CurDir => {}
            other => plain.push(other),
        }
    }
    let inside = plain.strip_prefix(workspace).ok().and_then(Path::to_str);
    inside.map(str::to_owned).with_context(|| {
        format!("'{word}' is neither a session nor a call, and not in '{}'", workspace.display())
    })
}

impl Row {
    fn text(&self, paint: Paint) -> String {
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
                ChangeKind::Lost => "not covered: no undo brings it back".to_owned(),
                _ => lines.unwrap_or_else(|| "not text".to_owned()),
            };
            text += &format!("    {} {path}  {lines}\n", letter(file.kind));
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let files: Vec<_> = self
            .files
            .iter()
            .map(|file| {
                let (added, removed) = file.lines.unzip();
                json!({"path": String::from_utf8_lossy(&file.path), "change": letter(file.kind),
                    "added": added, "removed": removed, "covered": file.kind != ChangeKind::Lost})
            })
            .collect();
        json!({"note": self.checkpoint.note, "files": files})
    }
}

fn letter(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "A",
        ChangeKind::Modified => "M",
        ChangeKind::Deleted | ChangeKind::Lost => "D",
    }
}

fn signed(added: u64, removed: u64) -> String {
    format!("+{added} -{removed}")
}

fn command(call: &Call) -> String {
    let mut command = call.command();
    if command.chars().count() > MAX_COMMAND {
        command = command.chars().take(MAX_COMMAND).collect::<String>() + "..";
    }
    command
}

/// The longest command that is printed, in characters.
const MAX_COMMAND: usize = 80;

/// Asks on the terminal. Errors: there is none.
fn confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!(UsageError(
            "undo asks on a terminal\nhint: to put this back without a question, add --yes"
                .to_owned()
        ));
    }
    console::say_lines("put this back? [y/N] ");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
