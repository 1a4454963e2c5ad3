//! The workspace's git repository in a sidecar (`spec/containers.md#repository`).
//!
//! git runs in the agent container and executes commands that the repository configuration names.
//! So a sidecar gets the files that select them as read-only mounts. The agent container gets so the
//! pointers by which git finds the configuration, and all of these files of a linked repository, which
//! other workspaces share.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use aifo_engine::Mount;
use aifo_process::descriptor_path;
use nix::fcntl::OFlag;

mod mount_points;

use self::mount_points::own_common_dir;
pub(super) use self::mount_points::{MountPoints, RepositoryPlace};
pub use self::mount_points::{has_mount_points, remove_mount_points};

/// The repository outside of the workspace that the workspace's `.git` file names. The caller has
/// checked that it names the workspace, too. Real paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedRepository {
    /// The directory of the main repository, or of a submodule.
    pub common: PathBuf,
    /// The name in `worktrees` of a linked worktree; `None` for a submodule.
    pub worktree: Option<OsString>,
}

/// The mounts of a workspace repository.
#[derive(Debug, Default)]
pub(super) struct Repository {
    entries: Vec<Entry>,
    /// Every path whose replacement ends a mount, and its file.
    watched: Vec<(PathBuf, Option<FileId>)>,
    /// Keeps the inode number of a watched link from being used again.
    link: Option<Entry>,
    /// The reason why tools cannot write at all, or can write everything.
    pub(super) problem: Option<String>,
}

/// A file or directory with its own mount.
#[derive(Debug)]
pub(super) struct Entry {
    /// Relative to the workspace, or absolute outside of it.
    path: PathBuf,
    read_only: bool,
    /// Keeps the inode number from being used again.
    file: File,
    pub(super) metadata: Metadata,
}

/// Identifies a file on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Names in a repository directory, and how they are mounted.
const CONFIG: &str = "config";
const HOOKS: &str = "hooks";
const COMMON_DIR: &str = "commondir";
const WORKTREE_CONFIG: &str = "config.worktree";
const OPTIONAL: [&str; 2] = ["modules", "worktrees"];

/// Names in the directory of a linked worktree. `gitdir` and `commondir` exist.
const OF_WORKTREE: [&str; 3] = ["gitdir", COMMON_DIR, WORKTREE_CONFIG];

/// The container that gets the mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    /// A sidecar.
    Tools,
    /// The agent's, whose git writes configuration and hooks of the workspace repository.
    Agent,
}

/// No path or configuration of a repository is larger.
const MAX_BYTES: u64 = 1 << 20;

impl Repository {
    /// Finds a workspace repository. An absent one has no mounts.
    pub(super) fn find(
        workspace: &Path,
        linked: Option<&LinkedRepository>,
        recipient: Recipient,
    ) -> Self {
        let mut found = linked.map_or_else(Repository::default, Repository::linked);
        let dot_git = Entry::open(workspace, Path::new(""), ".git");
        found.watched.push((workspace.join(".git"), dot_git.as_ref().map(Entry::id)));
        let Some(dot_git) = dot_git else { return found };
        if dot_git.metadata.is_dir() {
            found.add_directory(workspace, dot_git, recipient);
        } else if dot_git.metadata.is_file() {
            let named = pointed_name(workspace);
            found.entries.push(dot_git);
            let named = named.and_then(|name| Entry::open(workspace, Path::new(""), name));
            if let Some(directory) = named.filter(|it| it.metadata.is_dir()) {
                found.watched.push((workspace.join(&directory.path), Some(directory.id())));
                found.add_directory(workspace, directory, recipient);
            }
        } else {
            found.link = Some(dot_git);
            if recipient == Recipient::Tools {
                let problem = "'.git' is a link, so tools can replace the repository";
                found.problem = Some(problem.into());
            }
        }
        found
    }

    /// Finds the mounts of a linked repository.
    fn linked(linked: &LinkedRepository) -> Self {
        let mut found = Repository::default();
        let common = linked.common.as_path();
        let parts = common.parent().zip(common.file_name());
        let opened = parts.and_then(|(parent, name)| Entry::open(parent, parent, name));
        found.watched.push((common.to_owned(), opened.as_ref().map(Entry::id)));
        let Some(directory) = opened.filter(|it| it.metadata.is_dir()) else {
            found.problem = Some(format!("'{}' was removed", common.display()));
            return found;
        };
        let (mut entries, mut problem) = found.entries_of(Path::new("/"), &directory);
        if let Some(name) = &linked.worktree {
            match found.entries_of_worktree(&directory, name) {
                Ok(of_worktree) => entries.extend(of_worktree),
                Err(why) => problem = problem.or(Some(why)),
            }
        }
        found.add(directory, entries, problem);
        found
    }

    fn entries_of_worktree(&mut self, common: &Entry, name: &OsStr) -> Result<Vec<Entry>, String> {
        let missing = |name: &OsStr| format!("'{}' of the worktree is missing", name.display());
        let worktrees = Entry::open(&descriptor_path(&common.file), &common.path, "worktrees")
            .ok_or_else(|| missing("worktrees".as_ref()))?;
        let worktree = Entry::open(&descriptor_path(&worktrees.file), &worktrees.path, name);
        let mut worktree =
            worktree.filter(|it| it.metadata.is_dir()).ok_or_else(|| missing(name))?;
        worktree.read_only = false;
        let mut entries = Vec::new();
        for name in OF_WORKTREE {
            let entry = Entry::open(&descriptor_path(&worktree.file), &worktree.path, name);
            self.watched.push((worktree.path.join(name), entry.as_ref().map(Entry::id)));
            let entry = entry.filter(|it| it.metadata.is_file());
            entries.push(entry.ok_or_else(|| missing(name.as_ref()))?);
        }
        entries.insert(0, worktree);
        Ok(entries)
    }

    fn add_directory(&mut self, workspace: &Path, directory: Entry, recipient: Recipient) {
        let (mut entries, mut problem) = self.entries_of(workspace, &directory);
        if recipient == Recipient::Agent {
            entries.retain(|entry| entry.path.ends_with(COMMON_DIR));
            problem = None;
        } else if let Some(key) =
            key_without_common_dir(&descriptor_path(&directory.file).join(CONFIG))
        {
            problem = Some(format!("its configuration sets '{key}'"));
        }
        self.add(directory, entries, problem);
    }

    /// Finds the files in the directory of a repository that get mounts of their own, and a reason
    /// why they cannot be protected.
    fn entries_of(&mut self, root: &Path, directory: &Entry) -> (Vec<Entry>, Option<String>) {
        let here = directory.path.clone();
        let inside = descriptor_path(&directory.file);
        let mut entries = Vec::new();
        let mut problem = None;
        for name in [CONFIG, HOOKS, COMMON_DIR, WORKTREE_CONFIG].into_iter().chain(OPTIONAL) {
            let entry = Entry::open(&inside, &here, name);
            let id = entry.as_ref().map(Entry::id);
            self.watched.push((root.join(&here).join(name), id));
            let is_directory = name == HOOKS || OPTIONAL.contains(&name);
            match entry {
                Some(entry) if is_directory && entry.metadata.is_dir() => entries.push(entry),
                Some(entry) if !is_directory && entry.metadata.is_file() => entries.push(entry),
                None if OPTIONAL.contains(&name) => {}
                None => {
                    problem.get_or_insert_with(|| format!("it has no '{name}'"));
                }
                Some(_) => problem = Some(format!("its '{name}' is a link or of an unusual type")),
            }
        }
        if problem.is_none() && own_common_dir(&inside).is_none() {
            problem = Some(format!("its '{COMMON_DIR}' names another directory"));
        }
        (entries, problem)
    }

    /// Adds a repository directory: writable with these mounts, or else read-only as a whole.
    fn add(&mut self, mut directory: Entry, entries: Vec<Entry>, problem: Option<String>) {
        directory.read_only = problem.is_some();
        let name = directory.path.display().to_string();
        self.entries.push(directory);
        match problem {
            Some(why) => self.problem = Some(format!("tools cannot write to '{name}': {why}")),
            None => self.entries.extend(entries),
        }
    }

    /// Returns the mounts below the workspace and below its other path.
    pub(super) fn mounts(&self, alias: &Path, workspace: &Path) -> impl Iterator<Item = Mount> {
        self.places(alias, workspace)
            .into_iter()
            .map(move |(entry, to)| Mount::bind(&workspace.join(&entry.path), to, entry.read_only))
    }

    /// Returns the options by which the runner checks that the engine mounted these files. Otherwise an
    /// agent that puts a link in place of one would choose a directory of the host.
    pub(super) fn expectations(&self, alias: &Path, workspace: &Path) -> Vec<OsString> {
        let words = self.places(alias, workspace).into_iter().flat_map(|(entry, to)| {
            let FileId { device, inode } = entry.id();
            let mut value = OsString::from(format!("{device}:{inode}:"));
            value.push(to);
            ["--expect".into(), value]
        });
        words.collect()
    }

    fn places(&self, alias: &Path, workspace: &Path) -> Vec<(&Entry, PathBuf)> {
        let below = |root: &Path| -> Vec<_> {
            self.entries.iter().map(|entry| (entry, root.join(&entry.path))).collect()
        };
        let mut in_alias = below(alias);
        // A path outside of the workspace has one place.
        in_alias.retain(|(entry, _)| entry.path.is_relative());
        [in_alias, below(workspace)].concat()
    }

    /// Returns whether a container with these mounts still has them: replacing a file, as `git config`
    /// does, removes its mount from every container.
    pub(super) fn is_current(&self) -> bool {
        self.watched.iter().all(|(path, id)| FileId::of(path) == *id)
    }
}

impl Entry {
    /// Opens a file in a directory without following a link.
    pub(super) fn open(parent: &Path, path: &Path, name: impl AsRef<OsStr>) -> Option<Self> {
        let name = name.as_ref();
        let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(parent.join(name));
        let file = opened.ok()?;
        let metadata = file.metadata().ok()?;
        Some(Entry { path: path.join(name), read_only: true, file, metadata })
    }

    pub(super) fn id(&self) -> FileId {
        FileId::from(&self.metadata)
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }
}

impl FileId {
    pub(super) fn of(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().as_ref().map(FileId::from)
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Returns the directory that a `.git` file names, if it is in the workspace root. Others are not in
/// the container, or below a directory that could be replaced.
fn pointed_name(workspace: &Path) -> Option<OsString> {
    let text = read(&workspace.join(".git"))?;
    let path = Path::new(OsStr::from_bytes(text.strip_prefix(b"gitdir: ")?.trim_ascii_end()));
    let path = path.strip_prefix(workspace).unwrap_or(path);
    let mut parts = path.components().filter(|part| *part != Component::CurDir);
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => Some(name.to_owned()),
        _ => None,
    }
}

/// Returns a key that git ignores in a repository with a `commondir`.
fn key_without_common_dir(config: &Path) -> Option<&'static str> {
    let text = read(config)?.to_ascii_lowercase();
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    lines.find_map(|line| match line {
        _ if line.starts_with(b"worktree") && line.contains(&b'=') => Some("core.worktree"),
        _ if line.starts_with(b"bare") && !line.ends_with(b"false") => Some("core.bare"),
        _ => None,
    })
}

/// Reads a regular file without following a link at its end, and without blocking.
fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = Vec::new();
    file.metadata().ok()?.is_file().then_some(())?;
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests;
