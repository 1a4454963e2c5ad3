//! `aifo-coder state`: lists and removes the states that agents in containers keep.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_agents::{StoredState, stored_states};
use aifo_config::{Flags, load};
use aifo_host::Project;
use aifo_terminal::{console, paint};
use anyhow::Context as _;
use serde::Serialize;

use crate::banner::size;
use crate::choice::uptime;
use crate::cli::{StateClear, StateCommand, default_workspace, is_gone};
use crate::removals::Removal;

pub(crate) async fn run(command: &StateCommand) -> anyhow::Result<ExitCode> {
    match command {
        StateCommand::List { agents, json } => list(agents, *json),
        StateCommand::Refresh { agents } => refresh(agents),
        StateCommand::Clear(flags) => clear(flags).await,
    }
}

fn list(agents: &[String], json: bool) -> anyhow::Result<ExitCode> {
    let mut rows: Vec<_> = found(agents).iter().map(Row::of).collect();
    rows.sort();
    if json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() {
        console::say("no states found");
    } else {
        let head = ["AGENT", "PROJECT", "SIZE", "CHANGED", "DIRECTORY"].map(str::to_owned);
        let now = SystemTime::now();
        let rows = rows.into_iter().map(|row| {
            let project = row.project.unwrap_or_else(|| "(unknown project)".to_owned());
            let changed = UNIX_EPOCH + Duration::from_secs(row.changed_unix_secs);
            let age = uptime(now.duration_since(changed).unwrap_or_default());
            [row.agent, project, size(row.bytes), format!("{age} ago"), row.directory]
        });
        paint::print(&paint::columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn refresh(agents: &[String]) -> anyhow::Result<ExitCode> {
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    let workspace = default_workspace();
    let key = Project::of(&workspace).key();
    let config = load(&workspace, &Flags::default())?;
    let mut states = found(agents);
    states.retain(|state| state.key == key);
    if states.is_empty() {
        console::say("no states found for this project");
    }
    for state in states {
        let agent = &state.agent;
        let refreshed = state.refresh(config.agent_named(agent)?, Path::new(&home));
        let lines = refreshed.with_context(|| format!("cannot refresh {agent}"))?;
        let said =
            if lines.is_empty() { "no settings of yours".to_owned() } else { lines.join("; ") };
        console::say(format_args!("{agent}: {said}"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn clear(flags: &StateClear) -> anyhow::Result<ExitCode> {
    let mut states = found(&flags.agents);
    if let Some(key) = flags.of.key()? {
        states.retain(|state| state.key == key);
    }
    if flags.of.gone {
        states.retain(|state| state.project().is_some_and(|root| is_gone(&root)));
    }
    if states.is_empty() {
        console::say("no states found");
    }
    let mut failed = false;
    for state in states {
        let removal = Removal::run(flags.dry_run, async { state.remove() }).await;
        failed |= removal.print(&state.path.display().to_string())?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the states of these agents, or all.
fn found(agents: &[String]) -> Vec<StoredState> {
    let mut states = stored_states();
    states.retain(|state| agents.is_empty() || agents.contains(&state.agent));
    states
}

/// A state in JSON.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    agent: String,
    /// The project root; null if no session here recorded it.
    project: Option<String>,
    directory: String,
    /// Of all files.
    bytes: u64,
    /// The latest change of a file.
    changed_unix_secs: u64,
}

impl Row {
    fn of(state: &StoredState) -> Self {
        let (mut bytes, mut changed_unix_secs) = (0, 0);
        add_files(&state.path, &mut bytes, &mut changed_unix_secs);
        Row {
            agent: state.agent.clone(),
            project: state.project().map(|root| root.display().to_string()),
            directory: state.path.display().to_string(),
            bytes,
            changed_unix_secs,
        }
    }
}

/// Adds the sizes of all files below a directory, and notes their latest change. Follows no links.
fn add_files(directory: &Path, bytes: &mut u64, changed: &mut u64) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        *changed = (*changed).max(u64::try_from(about.mtime()).unwrap_or_default());
        match about.is_dir() {
            true => add_files(&entry.path(), bytes, changed),
            false => *bytes = bytes.saturating_add(about.len()),
        }
    }
}
