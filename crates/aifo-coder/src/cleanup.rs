//! `aifo-coder cleanup`: removing what killed sessions left.

use std::process::ExitCode;

use aifo_launch::{Part, RemoveError, killed_sessions, running_sessions, survey};
use aifo_types::escape_line;
use serde::Serialize;

use crate::cli::Cleanup;
use crate::{cache, console, engines, paint};

pub(crate) async fn cleanup(flags: &Cleanup) -> anyhow::Result<ExitCode> {
    let engines = engines::answering().await;
    let id = flags.session.as_deref().unwrap_or_default();
    let survey = survey(&engines, id).await;
    for error in &survey.silent {
        console::say(format_args!("what an engine holds is not known in full: {error}"));
    }
    if !id.is_empty() {
        for session in running_sessions().iter().filter(|session| session.id.starts_with(id)) {
            console::say(format_args!("session {} runs, so nothing of it is removed", session.id));
        }
    }
    let mut rows = Vec::new();
    for remains in &survey.remains {
        for part in &remains.parts {
            let outcome = match flags.dry_run {
                true => Outcome::Found,
                false => part.remove().await.map_or_else(Outcome::Failed, |()| Outcome::Removed),
            };
            let row = Row::of(&remains.session, part, &outcome);
            if !flags.json {
                row.print(part, &outcome)?;
            }
            rows.push(row);
        }
    }
    if flags.json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() {
        console::say("nothing is left of any session");
    }
    if id.is_empty() {
        cache::report_unused(&engines, flags.dry_run).await?;
    }
    let failed = rows.iter().any(|row| row.error.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Names the sessions that were killed, before another one starts. It asks no engine.
pub(crate) fn warn_of_killed_sessions() {
    let killed = killed_sessions();
    if let Some((first, others)) = killed.split_first() {
        let rest = match others.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        tracing::warn!(
            "session {first}{rest} was killed and has left something; 'aifo-coder cleanup' removes it"
        );
    }
}

/// What becomes of something that was left.
enum Outcome {
    Found,
    Removed,
    Failed(RemoveError),
}

/// The same as JSON tells it.
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
    fn of(session: &str, part: &Part, outcome: &Outcome) -> Self {
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

    fn print(&self, part: &Part, outcome: &Outcome) -> anyhow::Result<()> {
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
