//! `aifo-coder cache`: lists and removes the caches that sidecars keep between sessions.

use std::process::ExitCode;

use aifo_config::{Config, Source};
use aifo_launch::{Cache, cache_sizes, caches};
use aifo_sidecar::{CacheOwner, ProjectKey};
use aifo_terminal::{console, paint};
use aifo_types::Kind;
use serde::Serialize;

use crate::cli::{CacheClear, CacheCommand, is_gone};
use crate::engines;
use crate::removals::Removal;

pub(crate) async fn run(command: &CacheCommand) -> anyhow::Result<ExitCode> {
    match command {
        CacheCommand::List { kinds, json } => list(kinds, *json).await,
        CacheCommand::Clear(flags) => clear(flags).await,
    }
}

async fn list(kinds: &[String], json: bool) -> anyhow::Result<ExitCode> {
    let caches = found(kinds).await?;
    let sizes = cache_sizes(&caches).await;
    let row = |(cache, size): (&Cache, _)| Row {
        kind: cache.kind.to_string(),
        backend: cache.backend(),
        owner: match cache.owner {
            CacheOwner::Project(_) => "project",
            CacheOwner::User => "user",
        },
        project: cache.project().map(|root| root.display().to_string()),
        name: cache.name(),
        size,
    };
    let rows: Vec<Row> = caches.iter().zip(sizes).map(row).collect();
    if json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() {
        console::say("no caches found");
    } else {
        let head = ["KIND", "BACKEND", "OWNER", "NAME", "SIZE"].map(str::to_owned);
        let rows = rows.into_iter().map(|row| {
            let owner = match (row.owner, row.project) {
                (_, Some(root)) => root,
                ("user", None) => "user".to_owned(),
                (_, None) => "(unknown project)".to_owned(),
            };
            [row.kind, row.backend.to_owned(), owner, row.name, row.size.unwrap_or_default()]
        });
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        paint::print(&paint::columns(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn clear(flags: &CacheClear) -> anyhow::Result<ExitCode> {
    let scope = ClearScope::of(flags)?;
    let mut caches = found(&flags.kinds).await?;
    caches.retain(|cache| scope.includes(cache));
    if caches.is_empty() {
        console::say("no caches found");
    }
    let mut failed = false;
    for cache in caches {
        let removal = Removal::run(flags.dry_run, cache.remove()).await;
        failed |= removal.print(&format!("{} ({})", cache.name(), cache.backend()))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The caches that `clear` removes, by owner.
enum ClearScope {
    All,
    Project(ProjectKey),
    User,
    Gone,
}

impl ClearScope {
    fn of(flags: &CacheClear) -> anyhow::Result<Self> {
        Ok(match flags.of.key()? {
            Some(key) => ClearScope::Project(key),
            None if flags.user => ClearScope::User,
            None if flags.of.gone => ClearScope::Gone,
            None => ClearScope::All,
        })
    }

    fn includes(&self, cache: &Cache) -> bool {
        match self {
            ClearScope::All => true,
            ClearScope::Project(key) => cache.owner == CacheOwner::Project(key.clone()),
            ClearScope::User => cache.owner == CacheOwner::User,
            ClearScope::Gone => cache.project().is_some_and(|root| is_gone(&root)),
        }
    }
}

/// Returns the caches of the named kinds, or all.
async fn found(words: &[String]) -> anyhow::Result<Vec<Cache>> {
    let kinds = kinds_named(words)?;
    let (caches, errors) = caches(&engines::answering().await, &kinds).await;
    for error in errors {
        console::say(format_args!("cannot list an engine's caches: {error}"));
    }
    Ok(caches)
}

fn kinds_named(words: &[String]) -> anyhow::Result<Vec<Kind>> {
    let config = Config::builtin();
    if words.is_empty() {
        return Ok(config.kinds.policy.kinds().iter().map(|policy| policy.kind.clone()).collect());
    }
    let source = Source::Flag("KIND");
    let mut kinds: Vec<Kind> = Vec::new();
    for word in words {
        let kind = config.kinds.named(word, &source)?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

/// A cache in JSON.
#[derive(Serialize)]
struct Row {
    kind: String,
    backend: &'static str,
    /// `project` or `user`.
    owner: &'static str,
    /// The project root; null for a user's cache, or if no session here recorded it.
    project: Option<String>,
    name: String,
    /// As printed by `du` or the engine; null if unknown.
    size: Option<String>,
}
