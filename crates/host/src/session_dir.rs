//! Session directories: created and locked by a session, and removed with it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
    unistd::getuid,
};

use crate::remove_tree::remove_tree;

/// A private directory with mode 0700, removed with its contents on drop.
///
/// It is locked for that time. The kernel releases the lock when the process ends, so a directory
/// without a lock is abandoned.
#[derive(Debug)]
pub struct SessionDir {
    path: PathBuf,
    _lock: Option<Flock<File>>,
}

impl SessionDir {
    /// Creates the directory. An existing path is an error, even a link, so no other user can have
    /// prepared it.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        loop {
            DirBuilder::new().mode(0o700).create(&path)?;
            match File::open(&path).and_then(lock_directory) {
                // A cleanup locked it first, took it for abandoned and removed it.
                Ok(LockOutcome::Removed) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(LockOutcome::Locked(lock)) => return Ok(SessionDir { path, _lock: Some(lock) }),
                Ok(LockOutcome::Unlockable) => return Ok(SessionDir { path, _lock: None }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl SessionDir {
    /// Unlocks the directory and leaves it.
    pub(crate) fn keep(mut self) {
        self.path.clear();
    }
}

impl Drop for SessionDir {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        // `aifo-coder clean` finds what remains.
        let _ = remove_tree(&self.path);
    }
}

enum LockOutcome {
    Locked(Flock<File>),
    /// The file system has no locks, as some network file systems. Such a directory never counts as
    /// abandoned.
    Unlockable,
    Removed,
}

fn lock_directory(directory: File) -> io::Result<LockOutcome> {
    match Flock::lock(directory, FlockArg::LockExclusive) {
        Ok(lock) if lock.metadata()?.nlink() == 0 => Ok(LockOutcome::Removed),
        Ok(lock) => Ok(LockOutcome::Locked(lock)),
        Err((directory, Errno::EINTR)) => lock_directory(directory),
        Err(_) => Ok(LockOutcome::Unlockable),
    }
}

/// Returns whether a running process has locked a directory. If that cannot be determined: yes.
pub(crate) fn is_locked(path: &Path) -> bool {
    match open_directory(path).map(|directory| Flock::lock(directory, FlockArg::LockSharedNonblock))
    {
        Ok(Ok(_shared)) => false,
        Ok(Err(_)) => true,
        Err(Errno::ENOENT) => false,
        Err(_) => true,
    }
}

/// Lock on an abandoned directory: no other process cleans it up, and a session that has just
/// created it waits, then creates it again.
#[derive(Debug)]
pub(crate) struct AbandonedDir {
    _lock: Flock<File>,
}

impl AbandonedDir {
    /// Locks the directory; `None` if another process has it.
    pub(crate) fn lock(path: &Path) -> Option<Self> {
        let directory = open_directory(path).ok()?;
        let lock = Flock::lock(directory, FlockArg::LockExclusiveNonblock).ok()?;
        (lock.metadata().ok()?.nlink() > 0).then_some(AbandonedDir { _lock: lock })
    }
}

/// True if a path is a directory of this user that no other user can enter. `false` for links.
pub(crate) fn is_private(path: &Path) -> bool {
    is_own(path) && path.symlink_metadata().is_ok_and(|found| found.mode() & 0o077 == 0)
}

/// Returns whether a path is a directory of this user. `false` for links.
pub(crate) fn is_own(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == getuid().as_raw())
}

fn open_directory(path: &Path) -> Result<File, Errno> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

/// Prefix of session directory names.
pub const PREFIX: &str = "aifo-";
/// Suffix of their temporary directories' names.
pub const TMP_SUFFIX: &str = "-tmp";
/// Suffix of their holders' directories' names.
pub(crate) const HELD_SUFFIX: &str = "-held";

/// Returns the session id in a directory's name, if it is a session directory.
pub(crate) fn session_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PREFIX)?;
    let suffixes = [TMP_SUFFIX, HELD_SUFFIX];
    let id = suffixes.iter().find_map(|suffix| rest.strip_suffix(suffix)).unwrap_or(rest);
    is_session_id(id).then_some(id)
}

/// Returns whether a text has the form of a session id.
pub(crate) fn is_session_id(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == ID_LEN && text.bytes().all(is_digit)
}

/// Length of an id in hex digits.
const ID_LEN: usize = 16;

/// Returns the directory for session directories and sockets: `$XDG_RUNTIME_DIR` if only this user
/// can write to it, else the temporary directory, where the mode of the session directory protects
/// it.
pub fn runtime_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.filter(|path| is_trusted_parent(path)).unwrap_or_else(std::env::temp_dir)
}

fn is_trusted_parent(path: &Path) -> bool {
    path.is_absolute()
        && path.symlink_metadata().is_ok_and(|metadata| {
            metadata.is_dir() && metadata.uid() == getuid().as_raw() && metadata.mode() & 0o022 == 0
        })
}

/// Returns the parent of temporary directories on the host. Not `/tmp`: the temporary directory is
/// also mounted there.
pub fn temporary_directory() -> PathBuf {
    let place = PathBuf::from("/var/tmp");
    if place.is_dir() { place } else { std::env::temp_dir() }
}

/// Returns the id of a new session: eight random bytes in hex, so ids are unique and cannot be guessed.
pub fn new_id() -> io::Result<String> {
    let bits = aifo_process::random_bits()?;
    Ok(bits.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_is_private_and_removed_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("directory");
        let directory = SessionDir::create(path.clone()).unwrap();
        fs::create_dir(path.join("sub")).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(SessionDir::create(path.clone()).is_err(), "it exists");
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_is_locked_while_its_owner_lives() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("directory");
        let directory = SessionDir::create(path.clone()).unwrap();
        assert!(is_locked(&path));
        assert!(AbandonedDir::lock(&path).is_none());
        drop(directory);
        assert!(!is_locked(&path), "it was removed");

        fs::create_dir(&path).unwrap();
        assert!(!is_locked(&path), "its creator has ended");
        let taken = AbandonedDir::lock(&path).unwrap();
        assert!(AbandonedDir::lock(&path).is_none(), "only one process can lock it");
        drop(taken);
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn a_directory_removed_by_a_cleanup_is_created_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("directory");
        fs::create_dir(&path).unwrap();
        let taken = AbandonedDir::lock(&path).unwrap();
        let opened = File::open(&path).unwrap();
        let holder = std::thread::spawn(move || lock_directory(opened));
        fs::remove_dir(&path).unwrap();
        drop(taken);
        assert!(
            matches!(holder.join().unwrap(), Ok(LockOutcome::Removed)),
            "the directory is created again"
        );
    }

    #[test]
    fn a_tree_without_write_permission_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("directory");
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/file"), "").unwrap();
        for directory in ["a/b", "a"] {
            let closed = fs::Permissions::from_mode(0o500);
            fs::set_permissions(path.join(directory), closed).unwrap();
        }
        remove_tree(&path).unwrap();
        assert!(!path.exists());
        remove_tree(&path).unwrap();
    }

    #[test]
    fn session_directories_are_recognised_by_name() {
        assert_eq!(session_of("aifo-5d0c3b7f9a21e846"), Some("5d0c3b7f9a21e846"));
        assert_eq!(session_of("aifo-5d0c3b7f9a21e846-tmp"), Some("5d0c3b7f9a21e846"));
        for other in ["aifo-t12-0", "aifo-5d0c", "5d0c3b7f9a21e846", "aifo-5d0c3b7f9a21e84x"] {
            assert_eq!(session_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_trusted() {
        assert!(!is_trusted_parent(Path::new("/tmp")));
        assert!(!is_trusted_parent(Path::new("relative")));
        assert!(!is_trusted_parent(Path::new("/nonexistent")));
    }
}
