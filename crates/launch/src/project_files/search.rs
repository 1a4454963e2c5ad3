//! The search for project files in a workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aifo_policy::ManifestParts;
use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

use super::git_config::without_branches;
use super::manifest::command_parts;
use super::names::{Names, Role, is_marker, is_setting};

/// Number of files below a project file that are compared one by one. Further ones are compared
/// together, by their attributes, so that no file hides the change of another.
pub(super) const MAX_FILES: usize = 2000;
/// Entries below a project file. With more, it counts as changed.
const MAX_WALK: usize = 100_000;
/// Entries in all. With more, the workspace counts as changed.
const MAX_ENTRIES: usize = 1_000_000;
/// Depth below a project file.
pub(super) const MAX_DEPTH: usize = 8;
/// A larger file is compared by size, mode and time of change.
const MAX_BYTES: u64 = 1 << 20;
/// Bytes that a search reads; further files are compared as large ones.
const MAX_TOTAL_BYTES: u64 = 64 << 20;

/// Stands in a report for files that are not compared one by one.
const REST: &str = "..";

/// A file, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item {
    /// From the workspace root; absolute outside of it.
    pub(super) path: PathBuf,
    pub(super) part: Option<String>,
}

impl Item {
    pub(super) fn whole(path: &Path) -> Self {
        Item { path: path.to_owned(), part: None }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileState {
    Content {
        digest: [u8; 32],
        mode: u32,
    },
    Part(Vec<u8>),
    Link(PathBuf),
    /// A large file, or one that cannot be read. Its owner cannot set the time of a change, unlike that of
    /// a modification.
    Attributes {
        size: u64,
        changed: (i64, i64),
        mode: u32,
    },
    /// Of a repository.
    Directory,
    /// The further files of a directory, compared by their attributes.
    Rest([u8; 32]),
    /// Not all of them were seen.
    TooMany,
}

/// A search in progress, and the files that it has found.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) workspace: &'a Path,
    pub(super) names: &'a Names,
    pub(super) files: BTreeMap<Item, FileState>,
    /// Checkouts below files that count, such as an agent's worktrees: they are searched as the workspace.
    checkouts: Vec<PathBuf>,
    /// Directories of data, and those below the depth of a project file: only repositories in them count.
    pub(super) data: Vec<PathBuf>,
    /// The workspace path without links.
    root: PathBuf,
    /// The paths that links of project files lead to.
    followed: BTreeSet<PathBuf>,
    /// Bytes that may still be read.
    bytes: u64,
    /// Entries that may still be seen.
    entries: usize,
}

/// The directories that a search reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// A number of directories, of those that are no data.
    Start(usize),
    /// A number of all directories; of data only repositories. With more, the workspace counts as changed.
    End(usize),
}

impl<'a> Search<'a> {
    pub(super) fn new(workspace: &'a Path, names: &'a Names) -> Self {
        let (files, checkouts) = (BTreeMap::new(), Vec::new());
        let (bytes, entries) = (MAX_TOTAL_BYTES, MAX_ENTRIES);
        let root = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let (followed, data) = (BTreeSet::new(), Vec::new());
        Search { workspace, names, files, checkouts, data, root, followed, bytes, entries }
    }

    /// Searches the workspace level by level. Returns the number of levels that it has read.
    pub(super) fn tree(&mut self, scope: Scope) -> usize {
        let (Scope::Start(limit) | Scope::End(limit)) = scope;
        let mut read = 0;
        let mut level = vec![PathBuf::new()];
        for depth in 0.. {
            let mut next = Vec::new();
            for directory in level {
                read += 1;
                if read > limit {
                    self.note_cut(scope);
                    return depth;
                }
                self.directory(&directory, &mut next);
            }
            next.append(&mut self.checkouts);
            level = next;
            if level.is_empty() {
                break;
            }
        }
        // Level by level, too.
        let mut position = 0;
        while let Some(directory) = self.data.get(position).filter(|_| scope == Scope::End(limit)) {
            let directory = directory.clone();
            (position, read) = (position + 1, read + 1);
            if read > limit {
                self.note_cut(scope);
                break;
            }
            for (name, kind) in self.repositories(&directory) {
                self.data.extend(kind.is_dir().then(|| directory.join(name)));
            }
        }
        usize::MAX
    }

    fn note_cut(&mut self, scope: Scope) {
        if matches!(scope, Scope::End(_)) {
            self.insert(Path::new(REST), FileState::TooMany);
        }
    }

    fn directory(&mut self, path: &Path, next: &mut Vec<PathBuf>) {
        let entries = self.repositories(path);
        let has = |name: &str| self.files.contains_key(&Item::whole(&path.join(name)));
        let is_project = match path.as_os_str().is_empty() {
            // The names in a bare repository are of git.
            true => !self.is_git_directory(Path::new("HEAD")),
            false => has(".git") || entries.iter().any(|(name, _)| is_marker(name)),
        };
        for (name, kind) in entries {
            let path = path.join(&name);
            match self.names.role(&path) {
                Role::Obeyed => self.whole(&path),
                Role::Manifest(parts) => self.manifest(&path, parts),
                Role::Data if kind.is_dir() => self.data.push(path),
                Role::Other if kind.is_dir() => next.push(path),
                // In its place could be a directory with project files.
                Role::Other if kind.is_symlink() && self.workspace.join(&path).is_dir() => {
                    self.link(&path);
                }
                Role::Other if is_project && self.is_obeyed_in_project(&path) => self.whole(&path),
                Role::Repository | Role::Data | Role::Other => {}
            }
        }
    }

    /// Returns whether a file is a setting, or a script without extension, such as `gradlew`.
    fn is_obeyed_in_project(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_script = || {
            let mut start = [0; 2];
            let file = self.open(path, OFlag::empty());
            file.is_some_and(|(mut file, _)| file.read_exact(&mut start).is_ok() && start == *b"#!")
        };
        is_setting(&name) || !name.contains('.') && is_script()
    }

    /// Adds the repositories of a directory. Returns its other entries.
    fn repositories(&mut self, path: &Path) -> Vec<(OsString, FileType)> {
        let mut entries = self.entries(path);
        let has = |name: &str| entries.iter().any(|(entry, _)| entry == name);
        let has_git = has(".git");
        if has("HEAD") && (has("objects") || has("commondir")) {
            self.bare_repository(path);
            if !path.as_os_str().is_empty() {
                entries.clear();
            }
        }
        if has_git {
            self.repository(&path.join(".git"));
            entries.retain(|(name, _)| name != ".git");
        }
        entries
    }

    /// Adds a project file with everything below it, and what links there lead to.
    pub(super) fn whole(&mut self, path: &Path) {
        let is_of_git = path.ancestors().any(|path| self.is_git_directory(path));
        let mut walk = Walk { name: path, is_of_git, seen: 0, rest: None };
        self.walk(path, MAX_DEPTH, &mut walk);
        if let Some(rest) = walk.rest {
            let rest = FileState::Rest(rest.finalize().into());
            self.files.entry(Item::whole(&path.join(REST))).or_insert(rest);
        }
    }

    /// Adds a link, but not what it leads to.
    pub(super) fn link(&mut self, path: &Path) {
        if let Some(metadata) = self.metadata(path) {
            self.file(path, &metadata);
        }
    }

    /// Adds what a link leads to in the workspace, under its own name.
    fn follow(&mut self, link: &Path) {
        let Ok(target) = self.workspace.join(link).canonicalize() else { return };
        let Ok(target) = target.strip_prefix(&self.root) else { return };
        let is_known = link.starts_with(target) || target == Path::new(".git");
        if !is_known && self.followed.insert(target.to_owned()) {
            self.whole(target);
        }
    }

    fn walk(&mut self, path: &Path, depth: usize, walk: &mut Walk<'_>) {
        let Some(metadata) = self.metadata(path) else { return };
        walk.seen += 1;
        if walk.seen > MAX_WALK {
            self.insert(&walk.name.join(REST), FileState::TooMany);
            return;
        }
        if !metadata.is_dir() {
            match walk.seen > MAX_FILES {
                true => walk.add_to_rest(path, &metadata),
                false => self.file(path, &metadata),
            }
            if metadata.is_symlink() {
                self.follow(path);
            }
            return;
        }
        let Some(depth) = depth.checked_sub(1) else { return self.data.push(path.to_owned()) };
        if path != walk.name && self.metadata(&path.join(".git")).is_some() {
            self.checkouts.push(path.to_owned());
            return;
        }
        let entries = self.repositories(path);
        for (name, _) in entries {
            let path = path.join(name);
            if walk.is_of_git || self.names.role(&path) != Role::Data {
                self.walk(&path, depth, walk);
            }
        }
    }

    /// Adds the parts of a manifest, or all of it if it has an unusual format.
    pub(super) fn manifest(&mut self, path: &Path, parts: ManifestParts) {
        let text = self.content(path);
        match text.and_then(|text| command_parts(path, &text, parts)) {
            Some(parts) => {
                for (part, value) in parts {
                    let item = Item { path: path.to_owned(), part: Some(part) };
                    self.files.insert(item, FileState::Part(value.to_string().into_bytes()));
                }
            }
            None => self.whole(path),
        }
    }

    /// Adds a file that an earlier search has found.
    pub(super) fn again(&mut self, path: &Path) {
        match (self.names.role(path), self.metadata(path)) {
            (_, None) => {}
            (_, Some(found)) if found.is_dir() => self.insert(path, FileState::Directory),
            (Role::Manifest(parts), _) => self.manifest(path, parts),
            (_, Some(found)) => self.file(path, &found),
        }
    }

    /// Adds a file that is no directory.
    pub(super) fn file(&mut self, path: &Path, metadata: &Metadata) {
        let mode = metadata.mode();
        let is_link = metadata.is_symlink();
        let content = if is_link { None } else { self.content(path) };
        let state = match content {
            Some(mut content) => {
                let directory = path.parent().filter(|_| path.ends_with("config"));
                if directory.is_some_and(|directory| self.is_git_directory(directory)) {
                    content = without_branches(&content);
                }
                FileState::Content { digest: Sha256::digest(&content).into(), mode }
            }
            None if is_link => {
                FileState::Link(self.workspace.join(path).read_link().unwrap_or_default())
            }
            None => FileState::Attributes {
                size: metadata.size(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
                mode,
            },
        };
        self.insert(path, state);
    }

    pub(super) fn is_git_directory(&self, path: &Path) -> bool {
        self.files.get(&Item::whole(path)) == Some(&FileState::Directory)
    }

    pub(super) fn insert(&mut self, path: &Path, state: FileState) {
        self.files.insert(Item::whole(path), state);
    }

    pub(super) fn metadata(&self, path: &Path) -> Option<Metadata> {
        self.workspace.join(path).symlink_metadata().ok()
    }

    /// Lists a directory, sorted.
    pub(super) fn entries(&mut self, path: &Path) -> Vec<(OsString, FileType)> {
        let listed = self.workspace.join(path).read_dir().into_iter().flatten().flatten();
        let named = listed.filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)));
        let mut entries: Vec<_> = named.take(self.entries.min(MAX_WALK + 1)).collect();
        self.entries -= entries.len();
        if self.entries == 0 {
            self.insert(Path::new(REST), FileState::TooMany);
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries
    }

    /// Reads a file that is no link.
    pub(super) fn content(&mut self, path: &Path) -> Option<Vec<u8>> {
        self.read(path, OFlag::O_NOFOLLOW)
    }

    /// Opens a regular file. Never blocks. Returns its size, too.
    fn open(&self, path: &Path, links: OFlag) -> Option<(File, u64)> {
        let flags = (links | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
        let path = self.workspace.join(path);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        metadata.is_file().then(|| (file, metadata.size()))
    }

    /// Reads a regular file that is not too large.
    pub(super) fn read(&mut self, path: &Path, links: OFlag) -> Option<Vec<u8>> {
        let (file, size) = self.open(path, links)?;
        if size > MAX_BYTES.min(self.bytes) {
            return None;
        }
        self.bytes -= size;
        let mut content = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut content).ok()?;
        Some(content)
    }
}

/// The walk below a project file.
struct Walk<'a> {
    name: &'a Path,
    is_of_git: bool,
    seen: usize,
    /// Covers the files that are not compared one by one.
    rest: Option<Sha256>,
}

impl Walk<'_> {
    fn add_to_rest(&mut self, path: &Path, metadata: &Metadata) {
        let rest = self.rest.get_or_insert_with(Sha256::new);
        rest.update(path.as_os_str().as_bytes());
        rest.update([0]);
        for number in [metadata.ino(), metadata.size(), metadata.mode().into()] {
            rest.update(number.to_le_bytes());
        }
        for number in [metadata.ctime(), metadata.ctime_nsec()] {
            rest.update(number.to_le_bytes());
        }
    }
}
