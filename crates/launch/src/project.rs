//! The project that a workspace belongs to, which has caches of its own (`spec/containers.md#keys`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aifo_sidecar::{CacheOwner, Caches, ProjectKey};
use nix::fcntl::OFlag;
use nix::unistd::getuid;
use sha2::{Digest, Sha256};

use crate::call_log::state_directory;

/// Which sessions the caches of a session are shared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheScope {
    /// All of the user's sessions of this scope: one of them can put code into another.
    User,
    /// Those of the same project.
    #[default]
    Project,
    /// None: caches go with the session.
    None,
}

impl CacheScope {
    /// The caches of a session over a workspace, a real path.
    pub(crate) fn caches(self, workspace: &Path) -> Caches {
        match self {
            CacheScope::Project => Project::of(workspace).caches(),
            CacheScope::User => Caches::Of(CacheOwner::User),
            CacheScope::None => Caches::None,
        }
    }
}

/// Records the project of a session's workspace, and the workspace: from then on their keys can be
/// traced to their paths, and no program in them is trusted. A record that cannot be written is logged.
pub(crate) fn record_session(workspace: &Path) {
    for project in [Project::of(workspace), Project { root: workspace.to_owned() }] {
        if let Err(error) = project.record() {
            tracing::debug!("the project of key {} is not recorded: {error}", project.key());
        }
    }
}

/// A workspace, or the main repository of a workspace that is a linked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The project of a workspace, a real path.
    pub fn of(workspace: &Path) -> Self {
        let root = main_repository(workspace).unwrap_or_else(|| workspace.to_owned());
        Project { root }
    }

    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of it in the names of its caches.
    pub fn key(&self) -> ProjectKey {
        key_of(&self.root)
    }

    fn caches(&self) -> Caches {
        Caches::Of(CacheOwner::Project(self.key()))
    }

    /// Writes down which project its key stands for, for [`recorded_root`]. Errors: of the system.
    pub(crate) fn record(&self) -> io::Result<()> {
        let Some(directory) = records() else { return Ok(()) };
        let key = self.key();
        if recorded_root(&key).is_some() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let path = directory.join(key.as_str());
        let draft = directory.join(format!("{key}.{}", std::process::id()));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(self.root.as_os_str().as_bytes())?;
        fs::rename(&draft, &path)
    }
}

/// The root of the project that a key stands for; `None` if no session has written it down here.
pub fn recorded_root(key: &ProjectKey) -> Option<PathBuf> {
    let root = PathBuf::from(read_small(&records()?.join(key.as_str()))?);
    // A record cannot lie: the path leads to the key.
    (key_of(&root) == *key).then_some(root)
}

/// The roots of all projects that have had a session here, and their linked worktrees.
pub(crate) fn recorded_roots() -> Vec<PathBuf> {
    let records = records().and_then(|records| fs::read_dir(records).ok()).into_iter().flatten();
    let keys = records.flatten().filter_map(|record| record.file_name().into_string().ok());
    let keys = keys.filter_map(|name| ProjectKey::parse(&name));
    keys.filter_map(|key| recorded_root(&key)).collect()
}

/// Where the paths of projects are, by their keys. No tool can write there.
fn records() -> Option<PathBuf> {
    state_directory().map(|state| state.join("projects"))
}

/// The first 64 bits of a path's SHA-256. A repository may choose the name of its directory, so a hash
/// that can be steered would lead it to the caches of another.
fn key_of(root: &Path) -> ProjectKey {
    let digest = Sha256::digest(root.as_os_str().as_bytes());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    ProjectKey::parse(&digits).expect("eight bytes are 16 hexadecimal digits")
}

/// The root of the repository that a workspace is a linked worktree of.
///
/// The workspace says so in `.git`, which its tools can write, so its word alone counts for nothing: the
/// repository has to name this very workspace, in a file that only what works there can write.
fn main_repository(workspace: &Path) -> Option<PathBuf> {
    let said = read_small(&workspace.join(".git"))?;
    let said = said.as_bytes().strip_prefix(b"gitdir: ")?;
    let entry = workspace.join(OsStr::from_bytes(line(said)?)).canonicalize().ok()?;
    let worktrees = entry.parent().filter(|it| it.file_name() == Some(OsStr::new("worktrees")))?;
    let git = worktrees.parent().filter(|it| it.file_name() == Some(OsStr::new(".git")))?;
    let root = git.parent()?;
    let back = read_small(&entry.join("gitdir"))?;
    let back = entry.join(OsStr::from_bytes(line(back.as_bytes())?));
    let named = back.parent().filter(|_| back.file_name() == Some(OsStr::new(".git")))?;
    let holds = named.canonicalize().ok()? == workspace && is_ours(root) && is_ours(git);
    holds.then(|| root.to_owned())
}

/// The only line of a file, which may end without a line feed.
fn line(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    (!text.is_empty() && !text.contains(&b'\n')).then_some(text)
}

fn is_ours(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_dir() && it.uid() == getuid().as_raw())
}

/// Reads a small file of the user's own; `None` for anything else: a link, a pipe, a device, a file
/// without an end. It never waits.
fn read_small(path: &Path) -> Option<OsString> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != getuid().as_raw() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= MAX_BYTES).then(|| OsString::from_vec(text))
}

/// More than a path has.
const MAX_BYTES: u64 = 8 << 10;

#[cfg(test)]
mod tests;
