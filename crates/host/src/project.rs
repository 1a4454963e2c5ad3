//! The project of a workspace, which has its own caches (`spec/containers.md#keys`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aifo_sidecar::{CacheOwner, Caches, LinkedRepository, ProjectKey};
use nix::{fcntl::OFlag, unistd::getuid};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::claim::Claim;
use crate::own_directories::state_directory;
use crate::session_dir::is_own;

/// The sessions that share caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheScope {
    /// All sessions of the user with this scope: one can inject code into another.
    User,
    /// Sessions of the same project.
    #[default]
    Project,
    /// None: caches are removed with the session.
    None,
}

impl CacheScope {
    /// Returns the caches of a session over a workspace, a real path.
    pub fn caches(self, workspace: &Path) -> Caches {
        match self {
            CacheScope::Project => Project::of(workspace).caches(),
            CacheScope::User => Caches::Of(CacheOwner::User),
            CacheScope::None => Caches::None,
        }
    }
}

/// Records the workspace and its project, so that keys lead to paths and no program in them is
/// trusted. A failure is logged.
pub fn record_session(workspace: &Path) {
    for project in [Project::of(workspace), Project { root: workspace.to_owned() }] {
        if let Err(error) = project.record() {
            tracing::debug!("cannot record the project of key {}: {error}", project.key());
        }
    }
}

/// A workspace, or the main repository of a linked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// Returns the project of a workspace, a real path.
    pub fn of(workspace: &Path) -> Self {
        let root = main_repository(workspace).unwrap_or_else(|| workspace.to_owned());
        Project { root }
    }

    /// Returns its key in the names of caches.
    pub fn key(&self) -> ProjectKey {
        key_of(&self.root)
    }

    fn caches(&self) -> Caches {
        Caches::Of(CacheOwner::Project(self.key()))
    }

    /// Records the root under its key, for [`recorded_root`]. Errors: of the system.
    pub(crate) fn record(&self) -> io::Result<()> {
        let Some(directory) = records() else { return Ok(()) };
        let key = self.key();
        if recorded_root(&key).is_some() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let path = directory.join(key.as_str());
        let mut draft = NamedTempFile::new_in(&directory)?;
        draft.write_all(self.root.as_os_str().as_bytes())?;
        draft.persist(&path)?;
        Ok(())
    }
}

/// Returns the root of the project with this key; `None` if no session has recorded it.
pub fn recorded_root(key: &ProjectKey) -> Option<PathBuf> {
    let root = PathBuf::from(read_small(&records()?.join(key.as_str()))?);
    // A forged record has no effect: the path determines the key.
    (key_of(&root) == *key).then_some(root)
}

/// Returns the roots of all recorded projects, and recorded linked worktrees.
pub(crate) fn recorded_roots() -> Vec<PathBuf> {
    let records = records().and_then(|records| fs::read_dir(records).ok()).into_iter().flatten();
    let keys = records.flatten().filter_map(|record| record.file_name().into_string().ok());
    let keys = keys.filter_map(|name| ProjectKey::parse(&name));
    keys.filter_map(|key| recorded_root(&key)).collect()
}

/// Returns the directory of records, which no tool can write to.
fn records() -> Option<PathBuf> {
    state_directory().map(|state| state.join("projects"))
}

/// Returns the first 64 bits of the path's SHA-256. A repository can choose its directory's name,
/// so a weak hash would let it share another project's caches.
pub(crate) fn key_of(root: &Path) -> ProjectKey {
    let digest = Sha256::digest(root.as_os_str().as_bytes());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    ProjectKey::parse(&digits).expect("eight bytes are 16 hexadecimal digits")
}

/// Returns the root of the main repository of a linked worktree. A bare repository has none.
fn main_repository(workspace: &Path) -> Option<PathBuf> {
    let LinkedRepository { common, worktree } = Claim::of(workspace).ok()??.repository;
    let git = worktree.map(|_| common).filter(|it| it.file_name() == Some(OsStr::new(".git")))?;
    let root = git.parent()?;
    (is_own(root) && is_own(&git)).then(|| root.to_owned())
}

/// Reads a small regular file of the user. `None` for anything else: links, FIFOs, devices, large
/// files. Never blocks.
fn read_small(path: &Path) -> Option<OsString> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file: File = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != getuid().as_raw() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= MAX_BYTES).then(|| OsString::from_vec(text))
}

/// Longer than any path.
const MAX_BYTES: u64 = 8 << 10;

#[cfg(test)]
mod tests;
