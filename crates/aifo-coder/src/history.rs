//! `aifo-coder changes` and `aifo-coder undo`: `spec/history.md`.

mod row;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aifo_agents::trusted_programs_here;
use aifo_config::UsageError;
use aifo_history::{
    Call, ChangedFile, Selection, Store, UNDO, UndoAction, UndoReport, UndoRequest, call_named,
    is_selected,
};
use aifo_host::{
    Candidate, ControlClient, ControlError, HistorySettings, SessionHistory, SessionInfo,
    SessionLog, history_store, running_sessions, session_logs, sessions_meant,
};
use aifo_terminal::console;
use aifo_terminal::paint::{self, Paint};
use anyhow::{Context, bail};

use self::row::{Row, command, is_uncovered, sum};
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
            Selection::Call(last.context(
                "no call of the session is left to undo\n\
                 hint: --session also puts back what was changed without a call",
            )?)
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

impl Meant {
    async fn of(words: &[String]) -> anyhow::Result<Self> {
        let logs = session_logs();
        let candidates: Vec<_> = logs.iter().map(Candidate::from).collect();
        let names_session = words.first().is_some_and(|word| {
            !Path::new(word).exists()
                && !sessions_meant(Some(word), &choice::here(), &candidates).is_empty()
        });
        let (named, mut words) = words.split_at(usize::from(names_session));
        let named = named.first().cloned().or_else(|| latest_with_history(&logs));
        let log = session_log::select(named.as_deref(), false)?;
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
        let names_changed = |path: &String| {
            let path = std::slice::from_ref(path);
            rows.iter().flat_map(|row| &row.files).any(|file| is_selected(&file.path, path))
        };
        let paths = words.iter().map(|word| relative(&log.workspace, &here, word));
        let paths = paths.collect::<anyhow::Result<Vec<_>>>()?;
        for (word, path) in words.iter().zip(&paths) {
            if !names_changed(path) && log.workspace.join(path).symlink_metadata().is_err() {
                let what = format!("'{word}' is no call of session '{}', and no file", log.name);
                return Err(UsageError(format!("{what}\nhint: see: aifo-coder changes")).into());
            }
        }
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

/// Returns the id of the latest session in the current project that has a history: `exec` makes sessions without.
fn latest_with_history(logs: &[SessionLog]) -> Option<String> {
    let here = choice::here();
    let is_here = |log: &&SessionLog| {
        !log.workspace.as_os_str().is_empty() && here.starts_with(&log.workspace)
    };
    let mut kept: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
    let mut latest = logs.iter().rev().filter(is_here);
    let found = latest.find(|log| {
        let kept = kept.entry(&log.workspace).or_insert_with(|| {
            let store = store(&log.workspace).ok().flatten();
            store.and_then(|store| store.sessions().ok()).unwrap_or_default()
        });
        kept.contains(&log.id)
    });
    found.map(|log| log.id.clone())
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
    let is_lost = |row: &&Row| !row.files.is_empty() && row.files.iter().all(is_uncovered);
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
