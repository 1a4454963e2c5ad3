//! Mount points that aifo creates in repositories while sessions use them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aifo_process::descriptor_path;
use nix::fcntl::{Flock, FlockArg, OFlag};

use super::{
    COMMON_DIR, CONFIG, FileId, HOOKS, LinkedRepository, OPTIONAL, WORKTREE_CONFIG,
    key_without_common_dir, pointed_name, read,
};

/// The content of a `commondir` of aifo, which names its own directory; the second one if `hooks` is
/// aifo's, too.
const OWN_COMMON_DIR: &str = ".\n";
const OWN_COMMON_DIR_AND_HOOKS: &str = "./.\n";

/// The place of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum RepositoryPlace {
    /// In this workspace.
    Workspace(PathBuf),
    /// Outside of the workspace.
    Linked(LinkedRepository),
}

impl RepositoryPlace {
    /// Opens the repository directory.
    fn open(&self) -> Option<File> {
        match self {
            RepositoryPlace::Workspace(workspace) => git_directory(workspace),
            RepositoryPlace::Linked(linked) => open_directory(&linked.common),
        }
    }

    /// Creates the mount points that the repository directory lacks.
    fn create_missing(&self, git: &Path) -> io::Result<()> {
        match self {
            RepositoryPlace::Workspace(_) => match key_without_common_dir(&git.join(CONFIG)) {
                // The repository is mounted read-only as a whole.
                Some(_) => Ok(()),
                None => create_missing(git),
            },
            RepositoryPlace::Linked(linked) => {
                create_missing(git)?;
                match linked.worktree_directory(git) {
                    Some(worktree) => create_empty(&worktree.join(WORKTREE_CONFIG)),
                    None => Ok(()),
                }
            }
        }
    }

    fn remove_created(&self, git: &Path) -> io::Result<()> {
        if let RepositoryPlace::Linked(linked) = self
            && let Some(worktree) = linked.worktree_directory(git)
        {
            remove_empty(&worktree.join(WORKTREE_CONFIG))?;
        }
        remove_created(git)
    }
}

impl LinkedRepository {
    fn worktree_directory(&self, git: &Path) -> Option<PathBuf> {
        let directory = git.join("worktrees").join(self.worktree.as_ref()?);
        // An agent can write to neither of the two.
        directory.symlink_metadata().is_ok_and(|it| it.is_dir()).then_some(directory)
    }
}

/// The mount points that a repository lacks, while sessions use them.
#[derive(Debug)]
pub(in super::super) struct MountPoints {
    place: RepositoryPlace,
    pub(super) lock: Option<Flock<File>>,
}

impl MountPoints {
    /// Creates the mount points that a repository lacks. `None` if there is no repository to write to.
    pub(in super::super) fn create(place: &RepositoryPlace) -> Option<Self> {
        let lock = lock_shared(place.open()?)?;
        // `Repository::find` reports what is missing.
        let _ = place.create_missing(&descriptor_path(&*lock));
        Some(MountPoints { place: place.clone(), lock: Some(lock) })
    }

    /// Returns whether these belong to the repository that is there now.
    pub(in super::super) fn is_current(&self) -> bool {
        let of_lock = self.lock.as_ref().and_then(|lock| lock.metadata().ok());
        let now = self.place.open().and_then(|directory| directory.metadata().ok());
        of_lock.as_ref().map(FileId::from) == now.as_ref().map(FileId::from)
    }
}

impl Drop for MountPoints {
    fn drop(&mut self) {
        drop(self.lock.take());
        self.place.remove_mount_points();
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

impl RepositoryPlace {
    fn remove_mount_points(&self) {
        let Some(directory) = self.open() else { return };
        if let Ok(lock) = Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            // Another user's files, or none.
            let _ = self.remove_created(&descriptor_path(&*lock));
        }
    }

    fn has_mount_points(&self) -> bool {
        let lock = self.open().and_then(|it| Flock::lock(it, FlockArg::LockExclusiveNonblock).ok());
        lock.is_some_and(|lock| own_common_dir(&descriptor_path(&*lock)).is_some())
    }
}

/// Returns the places of a workspace repository and of the repository that it is linked to.
fn places(
    workspace: &Path,
    linked: Option<&LinkedRepository>,
) -> impl Iterator<Item = RepositoryPlace> {
    let linked = linked.cloned().map(RepositoryPlace::Linked);
    [RepositoryPlace::Workspace(workspace.to_owned())].into_iter().chain(linked)
}

/// Removes the mount points that sessions created in a workspace repository and the linked one,
/// unless a session uses them.
pub fn remove_mount_points(workspace: &Path, linked: Option<&LinkedRepository>) {
    for place in places(workspace, linked) {
        place.remove_mount_points();
    }
}

/// Returns whether the workspace repository or the linked one has mount points that no session uses.
pub fn has_mount_points(workspace: &Path, linked: Option<&LinkedRepository>) -> bool {
    places(workspace, linked).any(|place| place.has_mount_points())
}

/// Opens the directory of the workspace repository.
pub(super) fn git_directory(workspace: &Path) -> Option<File> {
    open_directory(&workspace.join(".git"))
        .or_else(|| open_directory(&workspace.join(pointed_name(workspace)?)))
}

/// Opens a directory without following a link at its end.
fn open_directory(path: &Path) -> Option<File> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

fn create_missing(git: &Path) -> io::Result<()> {
    let found = |name: &str| git.join(name).symlink_metadata().ok();
    let is_absent = |name: &str| found(name).is_none();
    let is_unfit = is_absent(CONFIG)
        || [CONFIG, WORKTREE_CONFIG].iter().any(|name| found(name).is_some_and(|it| !it.is_file()))
        || [HOOKS].iter().chain(&OPTIONAL).any(|name| found(name).is_some_and(|it| !it.is_dir()))
        || !is_absent(COMMON_DIR) && own_common_dir(git).is_none();
    if is_unfit {
        // The repository is mounted read-only as a whole.
        return Ok(());
    }
    let has_hooks = !is_absent(HOOKS);
    if is_absent(COMMON_DIR) {
        let text = if has_hooks { OWN_COMMON_DIR } else { OWN_COMMON_DIR_AND_HOOKS };
        // Complete when it appears: git reads it at any time.
        let new = git.join(format!("{COMMON_DIR}.{}.lock", std::process::id()));
        let _ = fs::remove_file(&new);
        create_new(&new)?.write_all(text.as_bytes())?;
        fs::rename(&new, git.join(COMMON_DIR))?;
    }
    create_empty(&git.join(WORKTREE_CONFIG))?;
    if !has_hooks {
        DirBuilder::new().mode(0o755).create(git.join(HOOKS))?;
    }
    Ok(())
}

/// The files that a session created besides `commondir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    WithHooks,
    WithoutHooks,
}

/// Reads the `commondir` of aifo, if it is that.
pub(super) fn own_common_dir(git: &Path) -> Option<Created> {
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
    remove_empty(&git.join(WORKTREE_CONFIG))?;
    fs::remove_file(git.join(COMMON_DIR))
}

fn create_new(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW.bits();
    OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(path)
}

/// Creates an empty file, unless there is one of any type.
fn create_empty(path: &Path) -> io::Result<()> {
    match create_new(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes a file if it is regular and empty.
fn remove_empty(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_file() && found.len() == 0 => fs::remove_file(path),
        _ => Ok(()),
    }
}
