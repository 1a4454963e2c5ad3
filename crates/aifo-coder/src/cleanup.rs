//! `aifo-coder cleanup`: removing what killed sessions left.

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
        console::say(format_args!("what an engine holds is not known in full: {error}"));
    }
    if !id.is_empty() {
        for session in running_sessions().iter().filter(|session| session.id.starts_with(id)) {
            console::say(format_args!("session {} runs, so nothing of it is removed", session.id));
        }
    }
    let mut rows = Vec::new();
    for session in &report.leftovers {
        for part in &session.items {
            let fate = match flags.dry_run {
                true => Fate::Found,
                false => part.remove().await.map_or_else(Fate::Stays, |()| Fate::Removed),
            };
            let row = Row::of(&session.session, part, &fate);
            if !flags.json {
                row.tell(part, &fate)?;
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
        cache::name_unused(&engines, flags.dry_run).await?;
    }
    let stays = rows.iter().any(|row| row.error.is_some());
    Ok(if stays { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
enum Fate {
    Found,
    Removed,
    Stays(RemoveError),
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
    fn of(session: &str, part: &Leftover, fate: &Fate) -> Self {
        let error = match fate {
            Fate::Stays(error) => Some(error.to_string()),
            Fate::Found | Fate::Removed => None,
        };
        Row {
            session: session.to_owned(),
            what: part.what(),
            name: part.name(),
            engine: part.engine().map(|engine| engine.flavor().program()),
            removed: matches!(fate, Fate::Removed),
            error,
        }
    }

    fn tell(&self, part: &Leftover, fate: &Fate) -> anyhow::Result<()> {
        let part = escape_line(&part.to_string());
        match fate {
            Fate::Found => paint::print(&format!("would remove {part}\n")),
            Fate::Removed => paint::print(&format!("removed {part}\n")),
            Fate::Stays(_) => {
                let error = self.error.clone().unwrap_or_default();
                console::fail(&anyhow::anyhow!("cannot remove {part}: {error}"));
                Ok(())
            }
        }
    }
}
