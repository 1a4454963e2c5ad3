//! The directory of a server (`spec/web.md#history`).

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use serde_json::json;

use super::{Slot, Storage, is_session_id};
use crate::block::Block;
use crate::clock::unix_ms;
use crate::history::{Op, SessionFacts};
use crate::journal::{Journal, private};
use crate::media;
use crate::report_log::{self, ReportLog};
use crate::session_state::SessionState;

/// Creates a directory that only its owner can enter, or checks that it is one.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = fs::symlink_metadata(path)?;
    let is_own = metadata.uid() == nix::unistd::geteuid().as_raw();
    if !metadata.is_dir() || !is_own || metadata.permissions().mode() & 0o077 != 0 {
        let why = format!("'{}' is not a private directory of this user", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

pub(super) fn lock(directory: &Path) -> io::Result<Flock<fs::File>> {
    let file = private().write(true).create(true).truncate(false).open(directory.join("lock"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::errno::Errno::EAGAIN => io::Error::other(
            "another 'aifo-coder web' serves this workspace\nhint: use its page, or end it first",
        ),
        error => error.into(),
    })
}

/// Reads the facts of all sessions, repairs what a killed server left open, removes the oldest, and
/// returns the names of all images.
pub(super) fn read_sessions(
    directory: &Path,
    storage: &Storage,
) -> io::Result<(BTreeMap<String, Slot>, HashSet<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if path.extension().is_none_or(|extension| extension != "jsonl") || !is_session_id(&id) {
            continue;
        }
        match repair(&path, storage) {
            Ok((facts, images)) if facts.id == id => found.push((facts, images, path)),
            Ok(_) => tracing::warn!(session = id, "ignoring a history without its facts"),
            Err(error) => tracing::warn!(session = id, %error, "could not read the history"),
        }
    }
    found.sort_by_key(|(facts, _, _)| std::cmp::Reverse(facts.changed));
    for (facts, _, path) in found.drain(storage.keep_sessions.min(found.len())..) {
        tracing::debug!(session = facts.id, "removing an old history");
        remove_files(&path)?;
    }
    let mut used = HashSet::new();
    let mut sessions = BTreeMap::new();
    for (facts, images, _) in found {
        used.extend(images);
        sessions.insert(facts.id.clone(), Slot { facts, loaded: None });
    }
    Ok((sessions, used))
}

/// Returns the report of a turn that has ended without one of the agent's client.
pub(super) fn failed_turn(facts: &SessionFacts, why: &str) -> String {
    let session = facts.agent_session.as_deref();
    let error = json!({"message": why});
    json!({"type": "final", "session": session, "text": "", "content": [], "error": error})
        .to_string()
}

/// Removes a history and its reports.
pub(super) fn remove_files(history: &Path) -> io::Result<()> {
    // A history of an earlier version has no reports.
    let _ = fs::remove_file(report_log::path_beside(history));
    fs::remove_file(history)
}

fn repair(path: &Path, storage: &Storage) -> io::Result<(SessionFacts, Vec<String>)> {
    let (mut journal, ops) = Journal::open(path)?;
    let text = |op: &Op| serde_json::to_string(op).unwrap_or_default();
    let mut images: Vec<String> = Vec::new();
    for op in &ops {
        images.extend(media::names(&text(op)).map(str::to_owned));
    }
    images.sort_unstable();
    images.dedup();
    let mut state = SessionState::restore(ops, storage.session_bytes, 0, unix_ms());
    let ops = state.take_ops();
    journal.append(&ops)?;
    let interrupted = ops.iter().find_map(|op| match op {
        Op::Put(_, Block::TurnEnd { error: Some(error), .. }) => Some(error),
        _ => None,
    });
    if let Some(error) = interrupted {
        let reports = report_log::path_beside(path);
        let mut reports = ReportLog::open(&reports, storage.report_limits())?;
        reports.push(&failed_turn(state.facts(), error));
        reports.write()?;
    }
    Ok((state.facts().clone(), images))
}
