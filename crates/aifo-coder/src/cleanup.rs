//! `aifo-coder cleanup`: removes the remains of killed sessions.

use std::process::ExitCode;

use aifo_launch::{Leftover, RemoveError, find_leftovers, killed_sessions, running_sessions};
use aifo_types::escape_line;
use serde::Serialize;

use crate::cli::Cleanup;
use crate::{cache, console, engines, paint};

pub(crate) async fn cleanup(flags: &Cleanup) -> anyhow::Result<ExitCode> {
    let engines = engines::answering().await;
    let id = flags.session.as_deref().unwrap_or_default();
    let report = find_leftovers(&engines, id).await;
    for error in &report.errors {
        console::say(format_args!("cannot list all contents of an engine: {error}"));
    }
    if !id.is_empty() {
        for session in running_sessions().iter().filter(|session| session.id.starts_with(id)) {
            console::say(format_args!(
                "session {} is running; nothing of it is removed",
                session.id
            ));
        }
    }
    let mut rows = Vec::new();
    for session in &report.leftovers {
        for part in &session.items {
            let outcome = match flags.dry_run {
                true => Outcome::Found,
                false => part.remove().await.map_or_else(Outcome::Failed, |()| Outcome::Removed),
            };
            let row = Row::of(&session.session, part, &outcome);
            if !flags.json {
                row.print(part, &outcome)?;
            }
            rows.push(row);
        }
    }
    if flags.json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() {
        console::say("no remains of killed sessions");
    }
    if id.is_empty() {
        cache::report_unused(&engines, flags.dry_run).await?;
    }
    let failed = rows.iter().any(|row| row.error.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Warns of killed sessions before a new one starts. Queries no engine.
pub(crate) fn warn_of_killed_sessions() {
    let killed = killed_sessions();
    if let Some((first, others)) = killed.split_first() {
        let rest = match others.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        tracing::warn!(
            "session {first}{rest} was killed and left files or containers; run 'aifo-coder cleanup'"
        );
    }
}

/// The result for one remaining part.
enum Outcome {
    Found,
    Removed,
    Failed(RemoveError),
}

/// The same in JSON.
#[derive(Serialize)]
struct Row {
    session: String,
    what: &'static str,
    name: String,
    engine: Option<&'static str>,
    removed: bool,
    error: Option<String>,
}

impl Row {
    fn of(session: &str, part: &Leftover, outcome: &Outcome) -> Self {
        let error = match outcome {
            Outcome::Failed(error) => Some(error.to_string()),
            Outcome::Found | Outcome::Removed => None,
        };
        Row {
            session: session.to_owned(),
            what: part.what(),
            name: part.name(),
            engine: part.engine().map(|engine| engine.flavor().program()),
            removed: matches!(outcome, Outcome::Removed),
            error,
        }
    }

    fn print(&self, part: &Leftover, outcome: &Outcome) -> anyhow::Result<()> {
        let part = escape_line(&part.to_string());
        match outcome {
            Outcome::Found => paint::print(&format!("would remove {part}\n")),
            Outcome::Removed => paint::print(&format!("removed {part}\n")),
            Outcome::Failed(_) => {
                let error = self.error.clone().unwrap_or_default();
                console::fail(&anyhow::anyhow!("cannot remove {part}: {error}"));
                Ok(())
            }
        }
    }
}
