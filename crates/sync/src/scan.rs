//! The files of a workspace that are copied.

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use aifo_workspace::{Object, Rules, Tree, index_entries};

use crate::error::SyncError;
use crate::limits::UploadScope;
use crate::path::WorkspacePath;

/// The files and links of a workspace.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The sizes of files; `None` for links.
    pub(crate) found: BTreeMap<WorkspacePath, Option<u64>>,
    /// Paths that cannot be copied, and why.
    pub(crate) skipped: Vec<(Vec<u8>, &'static str)>,
}

/// Selects whether a repository's directories belong to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repository {
    Included,
    Omitted,
}

/// A larger index is not read.
const MAX_INDEX: u64 = 64 << 20;

impl Scan {
    /// Finds at most `limit` and one files. Links are not followed.
    pub(crate) fn of(
        tree: &Tree,
        scope: UploadScope,
        repository: Repository,
        limit: u64,
    ) -> Result<Self, SyncError> {
        let mut scan = Scan::default();
        let rules = match scope {
            UploadScope::Unignored => Rules::of_root(tree),
            UploadScope::All => Rules::default(),
        };
        let mut directories = vec![(PathBuf::new(), rules, scope)];
        while let Some((directory, rules, scope)) = directories.pop() {
            let names = match tree.names(&directory) {
                Ok(names) => names,
                // The root must be readable. Another directory may have been removed meanwhile.
                Err(error) if directory.as_os_str().is_empty() => {
                    return Err(SyncError::file("read", ".")(error));
                }
                Err(_) => {
                    scan.skip(directory.as_os_str().as_bytes(), "cannot be read");
                    continue;
                }
            };
            for name in names {
                let path = directory.join(&name);
                let Some(known) = scan.path(&path, repository) else { continue };
                let object = tree.object(&path);
                let is_directory = matches!(object, Object::Directory(_));
                let is_repository = name.as_bytes() == b".git";
                if !is_repository && rules.ignores(&path, is_directory) {
                    continue;
                }
                if is_directory {
                    // The files of a repository directory are not ignored.
                    let (rules, scope) = match (scope, is_repository) {
                        (UploadScope::Unignored, false) => (rules.below(tree, &path), scope),
                        _ => (Rules::default(), UploadScope::All),
                    };
                    directories.push((path, rules, scope));
                } else {
                    scan.add(known, &object);
                }
                if scan.found.len() as u64 > limit {
                    return Ok(scan);
                }
            }
        }
        if scope == UploadScope::Unignored {
            scan.add_tracked(tree, repository);
        }
        Ok(scan)
    }

    /// Adds files that are tracked, although a rule ignores them.
    fn add_tracked(&mut self, tree: &Tree, repository: Repository) {
        let index = tree.read(Path::new(".git/index"), MAX_INDEX).unwrap_or_default();
        for entry in index_entries(&index).unwrap_or_default() {
            let path = PathBuf::from(std::ffi::OsString::from_vec(entry.path));
            if let Some(path) = self.path(&path, repository)
                && !self.found.contains_key(&path)
            {
                match tree.object(path.as_path()) {
                    Object::Missing | Object::Directory(_) | Object::Behind => {}
                    object => self.add(path, &object),
                }
            }
        }
    }

    fn path(&mut self, path: &Path, repository: Repository) -> Option<WorkspacePath> {
        let bytes = path.as_os_str().as_bytes();
        match WorkspacePath::parse(bytes) {
            Ok(path) if path.is_reserved() => None,
            Ok(path) if repository == Repository::Omitted && path.is_in_repository() => None,
            Ok(path) => Some(path),
            Err(_) => {
                self.skip(bytes.get(..1024).unwrap_or(bytes), "is too long");
                None
            }
        }
    }

    fn add(&mut self, path: WorkspacePath, object: &Object) {
        match object {
            Object::File(metadata) => {
                self.found.insert(path, Some(metadata.len()));
            }
            Object::Link(_) => {
                self.found.insert(path, None);
            }
            Object::Missing | Object::Directory(_) | Object::Behind => {}
            Object::Other => self.skip(path.as_bytes(), "is a device, FIFO or socket"),
        }
    }

    fn skip(&mut self, path: &[u8], why: &'static str) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push((path.to_owned(), why));
        }
    }
}

/// Skipped paths that are reported.
const MAX_SKIPPED: usize = 1000;
