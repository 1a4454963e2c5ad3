//! The workspace's git repository in a sidecar (`spec/containers.md#repository`).
//!
//! git runs in the agent's container and executes commands that the repository's configuration names.
//! So a sidecar gets the files that select them as read-only mounts.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use aifo_engine::Mount;
use nix::fcntl::{Flock, FlockArg, OFlag};

/// The mounts of a workspace's repository.
#[derive(Debug, Default)]
pub(super) struct Repository {
    entries: Vec<Entry>,
    /// Every path whose replacement ends a mount, and its file.
    watched: Vec<(PathBuf, Option<FileId>)>,
    /// The reason why tools cannot write at all, or can write everything.
    pub(super) problem: Option<String>,
}

/// A file or directory with its own mount.
#[derive(Debug)]
struct Entry {
    /// Relative to the workspace.
    path: PathBuf,
    read_only: bool,
    /// Keeps the inode number from being used again.
    file: File,
    metadata: Metadata,
}

/// Identifies a file on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// Names in the directory of a repository, and how they are mounted.
const CONFIG: &str = "config";
const HOOKS: &str = "hooks";
const COMMON_DIR: &str = "commondir";
const WORKTREE_CONFIG: &str = "config.worktree";
const OPTIONAL: [&str; 2] = ["modules", "worktrees"];

/// The content of a `commondir` of aifo, which names its own directory; the second one if `hooks` is
/// aifo's, too.
const OWN_COMMON_DIR: &str = ".\n";
const OWN_COMMON_DIR_AND_HOOKS: &str = "./.\n";

/// No path or configuration of a repository is larger.
const MAX_BYTES: u64 = 1 << 20;

impl Repository {
    /// Finds the repository of a workspace. An absent one has no mounts.
    pub(super) fn find(workspace: &Path) -> Self {
        let mut found = Repository::default();
        let dot_git = Entry::open(workspace, Path::new(""), ".git");
        found.watched.push((workspace.join(".git"), dot_git.as_ref().map(Entry::id)));
        let Some(dot_git) = dot_git else { return found };
        if dot_git.metadata.is_dir() {
            found.add_directory(workspace, dot_git);
        } else if dot_git.metadata.is_file() {
            let named = pointed_name(workspace);
            found.entries.push(dot_git);
            let named = named.and_then(|name| Entry::open(workspace, Path::new(""), name));
            if let Some(directory) = named.filter(|it| it.metadata.is_dir()) {
                found.watched.push((workspace.join(&directory.path), Some(directory.id())));
                found.add_directory(workspace, directory);
            }
        } else {
            found.problem = Some("'.git' is a link, so tools can replace the repository".into());
        }
        found
    }

    fn add_directory(&mut self, workspace: &Path, mut directory: Entry) {
        let here = directory.path.clone();
        let inside = proc_path(&directory.file);
        let mut entries = Vec::new();
        let mut problem = None;
        for name in [CONFIG, HOOKS, COMMON_DIR, WORKTREE_CONFIG].into_iter().chain(OPTIONAL) {
            let entry = Entry::open(&inside, &here, name);
            let id = entry.as_ref().map(Entry::id);
            self.watched.push((workspace.join(&here).join(name), id));
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
        if let Some(key) = key_without_common_dir(&inside.join(CONFIG)) {
            problem = Some(format!("its configuration sets '{key}'"));
        }
        if problem.is_none() && own_common_dir(&inside).is_none() {
            problem = Some(format!("its '{COMMON_DIR}' names another directory"));
        }
        directory.read_only = problem.is_some();
        let name = here.display();
        self.problem = problem.map(|why| format!("tools cannot write to '{name}': {why}"));
        self.entries.push(directory);
        if self.problem.is_none() {
            self.entries.extend(entries);
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
        [below(alias), below(workspace)].concat()
    }

    /// Returns whether a container with these mounts still has them: replacing a file, as `git config`
    /// does, removes its mount from every container.
    pub(super) fn is_current(&self) -> bool {
        self.watched.iter().all(|(path, id)| FileId::of(path) == *id)
    }
}

impl Entry {
    /// Opens a file in a directory without following a link.
    fn open(parent: &Path, path: &Path, name: impl AsRef<OsStr>) -> Option<Self> {
        let name = name.as_ref();
        let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(parent.join(name));
        let file = opened.ok()?;
        let metadata = file.metadata().ok()?;
        Some(Entry { path: path.join(name), read_only: true, file, metadata })
    }

    fn id(&self) -> FileId {
        FileId::from(&self.metadata)
    }
}

impl FileId {
    fn of(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().as_ref().map(FileId::from)
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Returns the path of an open file, which no rename changes.
fn proc_path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Returns the directory that a `.git` file names, if it is in the workspace's root. Others are not in
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

/// The mount points that a repository lacks, while sessions use them.
#[derive(Debug)]
pub(super) struct MountPoints {
    workspace: PathBuf,
    lock: Option<Flock<File>>,
}

impl MountPoints {
    /// Creates the mount points that the workspace's repository lacks. `None` if there is no repository
    /// to write to.
    pub(super) fn create(workspace: &Path) -> Option<Self> {
        let lock = lock_shared(git_directory(workspace)?)?;
        // `Repository::find` reports what is missing.
        let _ = create_missing(&proc_path(&lock));
        Some(MountPoints { workspace: workspace.to_owned(), lock: Some(lock) })
    }

    /// Returns whether these belong to the repository that the workspace has now.
    pub(super) fn is_current(&self) -> bool {
        let of_lock = self.lock.as_ref().and_then(|lock| lock.metadata().ok());
        let now = git_directory(&self.workspace).and_then(|directory| directory.metadata().ok());
        of_lock.as_ref().map(FileId::from) == now.as_ref().map(FileId::from)
    }
}

impl Drop for MountPoints {
    fn drop(&mut self) {
        drop(self.lock.take());
        remove_mount_points(&self.workspace);
    }
}

/// Locks a directory. `None` if another process keeps it locked, as a tool could.
fn lock_shared(mut directory: File) -> Option<Flock<File>> {
    for _ in 0..LOCK_ATTEMPTS {
        match Flock::lock(directory, FlockArg::LockSharedNonblock) {
            Ok(lock) => return Some(lock),
            Err((unlocked, _)) => directory = unlocked,
        }
        // Another session removes its mount points.
        std::thread::sleep(LOCK_PAUSE);
    }
    None
}

const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Removes the mount points that sessions created in a workspace's repository, unless a session uses
/// them.
pub fn remove_mount_points(workspace: &Path) {
    let Some(directory) = git_directory(workspace) else { return };
    if let Ok(lock) = Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
        // Another user's files, or none.
        let _ = remove_created(&proc_path(&lock));
    }
}

/// Returns whether the workspace's repository has mount points that no session uses.
pub fn has_mount_points(workspace: &Path) -> bool {
    let lock = git_directory(workspace)
        .and_then(|it| Flock::lock(it, FlockArg::LockExclusiveNonblock).ok());
    lock.is_some_and(|lock| own_common_dir(&proc_path(&lock)).is_some())
}

/// Opens the directory of the workspace's repository.
fn git_directory(workspace: &Path) -> Option<File> {
    let open = |name: &OsStr| {
        let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
        OpenOptions::new().read(true).custom_flags(flags).open(workspace.join(name)).ok()
    };
    open(OsStr::new(".git")).or_else(|| open(&pointed_name(workspace)?))
}

fn create_missing(git: &Path) -> io::Result<()> {
    let found = |name: &str| git.join(name).symlink_metadata().ok();
    let is_absent = |name: &str| found(name).is_none();
    let is_unfit = is_absent(CONFIG)
        || [CONFIG, WORKTREE_CONFIG].iter().any(|name| found(name).is_some_and(|it| !it.is_file()))
        || [HOOKS].iter().chain(&OPTIONAL).any(|name| found(name).is_some_and(|it| !it.is_dir()))
        || !is_absent(COMMON_DIR) && own_common_dir(git).is_none()
        || key_without_common_dir(&git.join(CONFIG)).is_some();
    if is_unfit {
        // The repository is mounted read-only as a whole.
        return Ok(());
    }
    let create = |name: &str| {
        let flags = OFlag::O_NOFOLLOW.bits();
        OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(git.join(name))
    };
    let has_hooks = !is_absent(HOOKS);
    if is_absent(COMMON_DIR) {
        let text = if has_hooks { OWN_COMMON_DIR } else { OWN_COMMON_DIR_AND_HOOKS };
        // Complete when it appears: git reads it at any time.
        let new = git.join(format!("{COMMON_DIR}.{}", std::process::id()));
        let _ = fs::remove_file(&new);
        create(&format!("{COMMON_DIR}.{}", std::process::id()))?.write_all(text.as_bytes())?;
        fs::rename(&new, git.join(COMMON_DIR))?;
    }
    if is_absent(WORKTREE_CONFIG) {
        create(WORKTREE_CONFIG)?;
    }
    if !has_hooks {
        DirBuilder::new().mode(0o755).create(git.join(HOOKS))?;
    }
    Ok(())
}

/// What a session created besides `commondir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Created {
    WithHooks,
    WithoutHooks,
}

/// Reads the `commondir` of aifo, if it is that.
fn own_common_dir(git: &Path) -> Option<Created> {
    let text = read(&git.join(COMMON_DIR))?;
    match text {
        _ if text == OWN_COMMON_DIR.as_bytes() => Some(Created::WithoutHooks),
        _ if text == OWN_COMMON_DIR_AND_HOOKS.as_bytes() => Some(Created::WithHooks),
        _ => None,
    }
}

fn remove_created(git: &Path) -> io::Result<()> {
    let Some(created) = own_common_dir(git) else { return Ok(()) };
    if created == Created::WithHooks {
        // Fails if a hook was installed meanwhile.
        let _ = fs::remove_dir(git.join(HOOKS));
    }
    let config = git.join(WORKTREE_CONFIG);
    if config.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0) {
        fs::remove_file(config)?;
    }
    fs::remove_file(git.join(COMMON_DIR))
}

#[cfg(test)]
mod tests;
