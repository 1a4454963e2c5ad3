//! `aifo-coder cache`: what sidecars keep between sessions, and making an end of it.

use std::process::ExitCode;

use aifo_launch::{Cache, caches};
use aifo_types::{Kind, escape_line};
use serde::Serialize;

use crate::cli::CacheCommand;
use crate::config::{Config, Source};
use crate::{console, engines, paint};

pub(crate) async fn run(command: &CacheCommand) -> anyhow::Result<ExitCode> {
    match command {
        CacheCommand::List { kinds, sizes, json } => list(kinds, *sizes, *json).await,
        CacheCommand::Clear { kinds, dry_run } => clear(kinds, *dry_run).await,
    }
}

async fn list(kinds: &[String], sizes: bool, json: bool) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for cache in found(kinds).await? {
        let size = if sizes { cache.size().await } else { None };
        rows.push(Row {
            kind: cache.kind.to_string(),
            backend: cache.backend(),
            name: cache.name(),
            size,
        });
    }
    if json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() {
        console::say("there is no cache");
    } else {
        let head = ["KIND", "BACKEND", "NAME", if sizes { "SIZE" } else { "" }].map(str::to_owned);
        let rows = rows
            .into_iter()
            .map(|row| [row.kind, row.backend.to_owned(), row.name, row.size.unwrap_or_default()]);
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        paint::print(&paint::columns(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn clear(kinds: &[String], dry_run: bool) -> anyhow::Result<ExitCode> {
    let caches = found(kinds).await?;
    if caches.is_empty() {
        console::say("there is no cache");
    }
    let mut stays = false;
    for cache in caches {
        let name = format!("{} ({})", escape_line(&cache.name()), cache.backend());
        if dry_run {
            paint::print(&format!("would remove {name}\n"))?;
            continue;
        }
        match cache.remove().await {
            Ok(()) => paint::print(&format!("removed {name}\n"))?,
            Err(error) => {
                stays = true;
                console::fail(&anyhow::Error::from(error).context(format!("cannot remove {name}")));
            }
        }
    }
    Ok(if stays { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The caches of the kinds that were named, or of all.
async fn found(words: &[String]) -> anyhow::Result<Vec<Cache>> {
    let kinds = kinds_named(words)?;
    let (caches, errors) = caches(&engines::answering().await, &kinds).await;
    for error in errors {
        console::say(format_args!("what an engine keeps is not known: {error}"));
    }
    Ok(caches)
}

fn kinds_named(words: &[String]) -> anyhow::Result<Vec<Kind>> {
    let config = Config::builtin();
    if words.is_empty() {
        return Ok(config.policy.kinds().iter().map(|policy| policy.kind.clone()).collect());
    }
    let source = Source::Flag("KIND");
    let mut kinds: Vec<Kind> = Vec::new();
    for word in words {
        let kind = config.kind_named(word, &source)?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

/// A cache as JSON tells it.
#[derive(Serialize)]
struct Row {
    kind: String,
    backend: &'static str,
    name: String,
    /// As whoever counted says it; null unless it was asked for and could be had.
    size: Option<String>,
}
