//! `aifo-coder clean`: removes the remains of killed sessions, and replaced images.

use std::process::ExitCode;

use aifo_engine::Engine;
use aifo_host::{ELSEWHERE, Leftover, RemoveError, find_leftovers, running_sessions, session_logs};
use aifo_kube::client::{self, Cluster};
use aifo_terminal::{console, paint};
use serde::Serialize;

use crate::cli::Clean;
use crate::removals::Removal;
use crate::{engines, history};

pub(crate) async fn clean(flags: &Clean) -> anyhow::Result<ExitCode> {
    if flags.history {
        return history::clear(flags.dry_run);
    }
    if let Some(cluster) =
        Cluster::selected(&flags.cluster.flags(), flags.session.as_deref()).await?
    {
        return client::cleanup(
            &cluster,
            flags.session.as_deref().unwrap_or_default(),
            flags.dry_run,
            flags.json,
        )
        .await;
    }
    let (engines, silent) = engines::answering_and_silent().await;
    let given = flags.session.as_deref().unwrap_or_default();
    let logs = session_logs();
    let of_name = logs.iter().rev().find(|log| !given.is_empty() && log.name == given);
    let id = of_name.map_or(given, |log| log.id.as_str());
    let report = find_leftovers(&engines, id).await;
    let is_complete = silent == 0 && report.errors.is_empty();
    for error in &report.errors {
        console::say(format_args!("cannot list all contents of an engine: {error}"));
    }
    let running = running_sessions();
    let named = running.iter().filter(|session| !id.is_empty() && session.id.starts_with(id));
    let mut runs = false;
    for session in named {
        runs = true;
        console::say(format_args!("session {} is running; nothing of it is removed", session.id));
    }
    let mut rows = Vec::new();
    for session in &report.leftovers {
        for part in &session.items {
            let removal = Removal::run(flags.dry_run, part.remove()).await;
            rows.push(Row::of(&session.session, part, &removal));
            if !flags.json {
                removal.print(&part.to_string())?;
            }
        }
    }
    if id.is_empty() {
        for engine in &engines {
            rows.extend(remove_images(engine, flags).await?);
        }
    }
    if flags.json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() && !runs {
        let unless_listed = if is_complete { "" } else { " found on the engines that answer" };
        let elsewhere = if id.is_empty() { String::new() } else { format!("; {ELSEWHERE}") };
        console::say(format_args!("no remains of killed sessions{unless_listed}{elsewhere}"));
    }
    let failed = rows.iter().any(|row| row.error.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Removes the images of an engine that newer builds have replaced.
async fn remove_images(engine: &Engine, flags: &Clean) -> anyhow::Result<Vec<Row>> {
    let images = engine.replaced_images().await.unwrap_or_else(|error| {
        console::say(format_args!("cannot list an engine's images: {error}"));
        Vec::new()
    });
    let mut rows = Vec::new();
    for image in images {
        let removal = Removal::run(flags.dry_run, engine.remove_image(&image)).await;
        let program = engine.flavor().program();
        rows.push(Row {
            session: String::new(),
            what: "image",
            name: image.clone(),
            engine: Some(program),
            removed: matches!(removal, Removal::Removed),
            error: removal.error(),
        });
        if !flags.json {
            removal.print(&format!("image {image} ({program})"))?;
        }
    }
    Ok(rows)
}

/// The removal of one part in JSON.
#[derive(Serialize)]
struct Row {
    /// Empty for an image.
    session: String,
    what: &'static str,
    name: String,
    engine: Option<&'static str>,
    removed: bool,
    error: Option<String>,
}

impl Row {
    fn of(session: &str, part: &Leftover, removal: &Removal<RemoveError>) -> Self {
        Row {
            session: session.to_owned(),
            what: part.what(),
            name: part.name(),
            engine: part.engine().map(|engine| engine.flavor().program()),
            removed: matches!(removal, Removal::Removed),
            error: removal.error(),
        }
    }
}
