//! `aifo-coder cache`: lists and removes the caches that sidecars keep between sessions.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;

use aifo_config::{Config, Source};
use aifo_engine::Engine;
use aifo_host::{CacheScope, state_directory};
use aifo_launch::{Cache, caches};
use aifo_sidecar::{CacheOwner, ProjectKey};
use aifo_terminal::{console, paint};
use aifo_types::{Kind, escape_line};
use serde::Serialize;

use crate::cli::{CacheClear, CacheCommand, is_gone};
use crate::engines;
use crate::removals::Removal;

pub(crate) async fn run(command: &CacheCommand) -> anyhow::Result<ExitCode> {
    match command {
        CacheCommand::List { kinds, sizes, json } => list(kinds, *sizes, *json).await,
        CacheCommand::Clear(flags) => clear(flags).await,
    }
}

async fn list(kinds: &[String], sizes: bool, json: bool) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for cache in found(kinds).await? {
        let size = if sizes { cache.size().await } else { None };
        rows.push(Row {
            kind: cache.kind.to_string(),
            backend: cache.backend(),
            owner: match cache.owner {
                CacheOwner::Project(_) => "project",
                CacheOwner::User => "user",
            },
            project: cache.project().map(|root| root.display().to_string()),
            name: cache.name(),
            size,
        });
    }
    if json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() {
        console::say("no caches found");
    } else {
        let size = if sizes { "SIZE" } else { "" };
        let head = ["KIND", "BACKEND", "OWNER", "NAME", size].map(str::to_owned);
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

/// Names once the caches that projects shared before each project had its own.
pub(crate) async fn report_unused(engines: &[Engine], dry_run: bool) -> anyhow::Result<()> {
    let Some(marker) = state_directory().map(|state| state.join("unused-caches-named")) else {
        return Ok(());
    };
    let is_used = |config: Config| config.caches.value == CacheScope::User;
    if marker.exists() || aifo_config::load_user().is_ok_and(is_used) {
        return Ok(());
    }
    let (mut found, _) = caches(engines, &kinds_named(&[])?).await;
    found.retain(|cache| cache.owner == CacheOwner::User);
    if found.is_empty() {
        return Ok(());
    }
    let names =
        found.iter().map(|cache| format!("{} ({})", escape_line(&cache.name()), cache.backend()));
    console::say_lines(&format!(
        "aifo-coder: sessions no longer use these shared caches: {}\n\
         hint: remove them with: aifo-coder cache clear --user\n",
        names.collect::<Vec<_>>().join(", ")
    ));
    if !dry_run && let Some(state) = marker.parent() {
        // Without the marker the next cleanup names them again.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(state);
        let _ = File::create(&marker);
    }
    Ok(())
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
    /// As printed by `du` or the engine; null without `--sizes` or if unknown.
    size: Option<String>,
}
