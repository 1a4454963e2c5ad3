//! The references of a repository that an agent can write, read without git.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_workspace::{Object, Tree};
use sha2::{Digest, Sha256};

use super::object_id::{ObjectFormat, ObjectId};
use crate::error::SyncError;

/// The references that a result needs. Symbolic ones but `HEAD` are left out.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// The commit of `HEAD`.
    pub(crate) head: Option<ObjectId>,
    /// By full name: branches, remote branches, tags, the stash.
    pub(crate) all: BTreeMap<Vec<u8>, ObjectId>,
    /// Commits at which the history ends.
    pub(crate) shallow: Vec<ObjectId>,
    /// True if there are more references than the limit.
    pub(crate) is_cut: bool,
}

const MAX_REFERENCES: usize = 100_000;
const MAX_PACKED: u64 = 16 << 20;
const MAX_SHALLOW: u64 = 1 << 20;
const MAX_FILE: u64 = 4096;
const MAX_DEPTH: usize = 32;

pub(crate) const BRANCHES: &[u8] = b"refs/heads/";
pub(crate) const STASH: &[u8] = b"refs/stash";
const KINDS: [&[u8]; 3] = [BRANCHES, b"refs/remotes/", b"refs/tags/"];

impl References {
    /// Reads them; `None` without a directory `.git`. Errors: its references are not files.
    pub(crate) fn read(tree: &Tree) -> Result<Option<Self>, SyncError> {
        if !matches!(tree.object(Path::new(".git")), Object::Directory(_)) {
            return Ok(None);
        }
        if !matches!(tree.object(Path::new(".git/reftable")), Object::Missing) {
            return Err(SyncError::Reftable);
        }
        let mut references = References::default();
        let packed = tree.read(Path::new(".git/packed-refs"), MAX_PACKED);
        let is_large = matches!(tree.object(Path::new(".git/packed-refs")),
            Object::File(file) if file.len() > MAX_PACKED);
        references.is_cut |= is_large;
        for line in packed.unwrap_or_default().split(|byte| *byte == b'\n') {
            if let Some(space) = line.iter().position(|byte| *byte == b' ')
                && let Some((id, name)) = line.split_at_checked(space)
                && let Some(id) = ObjectId::parse(id)
            {
                references.add(name.get(1..).unwrap_or_default(), id);
            }
        }
        for directory in ["heads", "remotes", "tags"] {
            references.add_files(tree, Path::new("refs").join(directory));
        }
        if let Some(id) = read_id(tree, Path::new("refs/stash")) {
            references.add(STASH, id);
        }
        let head = tree.read(Path::new(".git/HEAD"), MAX_FILE).unwrap_or_default();
        let head = head.trim_ascii();
        references.head = match head.strip_prefix(b"ref:") {
            Some(name) => references.all.get(name.trim_ascii()).cloned(),
            None => ObjectId::parse(head),
        };
        let shallow = tree.read(Path::new(".git/shallow"), MAX_SHALLOW).unwrap_or_default();
        references.shallow =
            shallow.split(|byte| *byte == b'\n').filter_map(ObjectId::parse).collect();
        Ok(Some(references))
    }

    fn add(&mut self, name: &[u8], id: ObjectId) {
        let is_read = name == STASH || KINDS.iter().any(|kind| name.starts_with(kind));
        if is_read && self.all.len() >= MAX_REFERENCES && !self.all.contains_key(name) {
            self.is_cut = true;
        } else if is_read {
            self.all.insert(name.to_owned(), id);
        }
    }

    fn add_files(&mut self, tree: &Tree, root: PathBuf) {
        let mut directories = vec![root];
        let mut seen = 0;
        while let Some(directory) = directories.pop() {
            let names = tree.names(&Path::new(".git").join(&directory)).unwrap_or_default();
            for name in names {
                seen += 1;
                if seen > MAX_REFERENCES {
                    self.is_cut = true;
                    return;
                }
                let path = directory.join(&name);
                if let Some(id) = read_id(tree, &path) {
                    self.add(path.as_os_str().as_bytes(), id);
                } else if path.iter().count() < MAX_DEPTH
                    && matches!(tree.object(&Path::new(".git").join(&path)), Object::Directory(_))
                {
                    directories.push(path);
                }
            }
        }
    }

    /// Returns the branch with this short name.
    pub(crate) fn branch(&self, name: &str) -> Option<&ObjectId> {
        self.all.get(&[BRANCHES, name.as_bytes()].concat())
    }

    pub(crate) fn format(&self) -> ObjectFormat {
        self.head
            .iter()
            .chain(self.all.values())
            .next()
            .map_or(ObjectFormat::Sha1, ObjectId::format)
    }
}

fn read_id(tree: &Tree, name: &Path) -> Option<ObjectId> {
    let bytes = tree.read(&Path::new(".git").join(name), MAX_FILE)?;
    ObjectId::parse(bytes.trim_ascii())
}

/// Returns the commits of a repository before the agent starts, for [`send_result`](crate::send_result): none without a
/// repository.
pub fn session_start(workspace: &Path) -> Vec<ObjectId> {
    let Ok(tree) = Tree::open(workspace) else { return Vec::new() };
    let Ok(Some(references)) = References::read(&tree) else { return Vec::new() };
    let mut ids: Vec<_> = references.head.into_iter().chain(references.all.into_values()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Returns a digest of `HEAD`, the branches, tags and the stash of a repository, without running git; `None` without a
/// repository. Errors: as of [`send_result`](crate::send_result).
pub fn references_digest(workspace: &Path) -> Result<Option<String>, SyncError> {
    let tree = Tree::open(workspace).map_err(SyncError::file("open", workspace))?;
    let Some(references) = References::read(&tree)? else { return Ok(None) };
    let mut hash = Sha256::new();
    let head = references.head.iter().map(|id| (b"HEAD".as_slice(), id));
    for (name, id) in head.chain(references.all.iter().map(|(name, id)| (name.as_slice(), id))) {
        // A name has no line end.
        hash.update([name, b" ", id.as_str().as_bytes(), b"\n"].concat());
    }
    Ok(Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Returns the part of a name that users know.
pub(crate) fn short_name(name: &[u8]) -> String {
    let short = name.strip_prefix(BRANCHES).or_else(|| name.strip_prefix(b"refs/")).unwrap_or(name);
    aifo_types::escape_line(&OsStr::from_bytes(short).to_string_lossy())
}
