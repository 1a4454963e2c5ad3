//! Removes the remains of killed sessions of which nothing runs (`spec/cli.md#clean`).

use std::fs;

use aifo_engine::{Engine, Flavor, query_engine, within_timeout};

use crate::cleanup::{Leftover, Leftovers, find_leftovers};
use crate::held;
use crate::running::{SessionInfo, session_directories};
use crate::session_dir::{
    HELD_SUFFIX, PREFIX, TMP_SUFFIX, is_locked, is_own, runtime_directory, session_of,
};
use crate::trusted::TrustedPrograms;

/// A session whose launcher ended without removing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KilledSession {
    /// Its id.
    pub id: String,
    /// `local`, or the engine name. `None` if it was killed before it had started.
    pub backend: Option<String>,
}

impl KilledSession {
    fn may_use(&self, flavor: Flavor) -> bool {
        self.backend.as_deref().is_none_or(|backend| backend == flavor.program())
    }
}

/// Lists the killed sessions of this user. Reads the runtime directory only.
pub fn killed_sessions() -> Vec<KilledSession> {
    let directories = session_directories(&runtime_directory()).filter(|path| is_own(path));
    let dead = directories.filter(|path| !is_locked(path)).filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        // A temporary directory alone may remain of a session that ended normally, if a tool
        // removed its permissions.
        let id = session_of(name).filter(|_| !name.ends_with(TMP_SUFFIX))?.to_owned();
        let is_held = name.ends_with(HELD_SUFFIX);
        if is_held && held::has_unread_end(&path) {
            return None;
        }
        let record = SessionInfo::read(&path).map(|record| record.backend);
        // A holder uses no engine.
        let backend = record.or(is_held.then(|| "local".to_owned()));
        Some(KilledSession { id, backend })
    });
    dead.collect()
}

/// Killed sessions, by what became of their remains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedSessions {
    /// Ids of those of which nothing is left.
    pub removed: Vec<String>,
    /// Ids of those of which something is in use, or could not be removed.
    pub kept: Vec<String>,
}

/// Removes everything that killed sessions left, unless a process or a container of the session still
/// runs. Queries an engine only if a killed session may have used it.
pub async fn remove_killed_sessions(programs: impl FnOnce() -> TrustedPrograms) -> RemovedSessions {
    let killed = killed_sessions();
    if killed.is_empty() {
        return RemovedSessions::default();
    }
    let programs = programs();
    let mut engines = Vec::new();
    // An engine that does not answer may still run containers.
    let mut silent = Vec::new();
    for flavor in [Flavor::Docker, Flavor::Podman] {
        if killed.iter().any(|session| session.may_use(flavor)) {
            match query_engine(flavor, &programs).await.map(|status| status.result) {
                Some(Ok(engine)) => engines.push(engine),
                Some(Err(_)) => silent.push(flavor),
                None => {}
            }
        }
    }
    let is_reachable =
        |session: &&KilledSession| !silent.iter().any(|flavor| session.may_use(*flavor));
    let reachable: Vec<_> = killed.iter().filter(is_reachable).collect();
    let removed = match reachable.is_empty() {
        true => Vec::new(),
        false => within_timeout(remove(&engines, &reachable)).await.unwrap_or_default(),
    };
    let ids = killed.into_iter().map(|session| session.id);
    let kept = ids.filter(|id| !removed.contains(id)).collect();
    RemovedSessions { removed, kept }
}

/// Removes what these sessions left. `engines` are all engines that they may have used. Returns the
/// ids of removed sessions.
async fn remove(engines: &[Engine], sessions: &[&KilledSession]) -> Vec<String> {
    let report = find_leftovers(engines, "").await;
    let is_complete = report.errors.is_empty();
    let mut removed = Vec::new();
    for leftovers in report.leftovers {
        let named = sessions.iter().find(|session| session.id == leftovers.session);
        let Some(session) = named else { continue };
        let is_local = session.backend.as_deref() == Some("local");
        if (is_complete || is_local) && !runs(&leftovers, engines).await {
            let mut is_gone = true;
            for item in &leftovers.items {
                is_gone &= item.remove().await.is_ok();
            }
            removed.extend(is_gone.then_some(leftovers.session));
        }
    }
    removed
}

/// Returns whether a container of the session runs, or a process has the session directory in its
/// environment: as a part of PATH, TMPDIR or the proxy address.
async fn runs(leftovers: &Leftovers, engines: &[Engine]) -> bool {
    let has_container =
        leftovers.items.iter().any(|item| matches!(item, Leftover::Container { .. }));
    for engine in engines.iter().filter(|_| has_container) {
        match engine.containers(Some(&leftovers.session)).await {
            Ok(found) if !found.iter().any(|container| container.status.starts_with("Up")) => {}
            _ => return true,
        }
    }
    let name = format!("{PREFIX}{}", leftovers.session);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    // Processes of other users have no readable environment.
    let mut environments =
        processes.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments
        .any(|environment| environment.windows(name.len()).any(|window| window == name.as_bytes()))
}
