//! Removes a directory tree of any depth, which tools may have left to the launcher.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aifo_process::descriptor_path;
use nix::fcntl::OFlag;

/// Removes a directory tree, including directories without write permission, as in caches of Go
/// modules. Follows no links. A missing directory is no error.
///
/// Neither the stack, the open files nor a path's length bound the depth: a directory in the tree is
/// first moved to its top, so there are never more than two levels.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match Directory::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut moved = 0u64;
    let mut pending = top.remove_files()?;
    while let Some(name) = pending.pop() {
        let next = match Directory::open(&top.at(&name)) {
            // A moved directory has taken the place of an empty one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        for inner in next.remove_files()? {
            let from = next.at(&inner);
            if fs::remove_dir(&from).is_ok() {
                continue;
            }
            // Moving a directory changes its `..`, which takes write permission.
            Directory::open(&from)?;
            let to = loop {
                moved += 1;
                let to = PathBuf::from(format!("aifo-removed-{moved}"));
                match fs::rename(&from, top.at(&to)) {
                    // A tool may have used the name.
                    Err(error) if is_taken(&error) => {}
                    renamed => break renamed.map(|()| to)?,
                }
            };
            pending.push(to);
        }
        fs::remove_dir(top.at(&name))?;
    }
    fs::remove_dir(path)
}

fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// An open directory that its owner may list and change.
struct Directory(File);

impl Directory {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
        let found = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let directory = Directory(found);
        // Another owner's directory may still be removable.
        let _ = fs::set_permissions(directory.path(), Permissions::from_mode(0o700));
        Ok(directory)
    }

    /// Returns its path, which stays valid wherever the directory is moved.
    fn path(&self) -> PathBuf {
        descriptor_path(&self.0)
    }

    fn at(&self, name: &Path) -> PathBuf {
        self.path().join(name)
    }

    /// Removes all files, and returns the names of the directories.
    fn remove_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut directories = Vec::new();
        for entry in fs::read_dir(self.path())? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.file_name().into());
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(directories)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A new directory in memory, as a disk takes a minute for the deep tree.
    fn scratch() -> TempDir {
        tempfile::tempdir_in("/dev/shm").unwrap()
    }

    #[test]
    fn a_tree_of_30_000_levels_is_removed() {
        let path = scratch().keep();
        let mut deepest = Directory::open(&path).unwrap();
        for _ in 0..30_000 {
            fs::write(deepest.at(Path::new("file")), "").unwrap();
            fs::create_dir(deepest.at(Path::new("d"))).unwrap();
            deepest = Directory::open(&deepest.at(Path::new("d"))).unwrap();
        }
        drop(deepest);
        remove_tree(&path).unwrap();
        assert!(!path.exists());
        remove_tree(&path).unwrap();
    }

    #[test]
    fn links_are_not_followed_and_modes_do_not_matter() {
        let parent = scratch();
        let (path, kept) = (parent.path().join("links"), parent.path().join("kept"));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        // Names that a move could use.
        fs::create_dir_all(path.join("aifo-removed-1/x")).unwrap();
        fs::write(path.join("a/aifo-removed-2"), "").unwrap();
        symlink(&kept, path.join("a/link")).unwrap();
        symlink(&kept, path.join("link")).unwrap();
        for directory in ["a/b/c", "a/b", "a", "aifo-removed-1"] {
            fs::set_permissions(path.join(directory), Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(&path).unwrap();
        assert!(!path.exists());
        assert!(kept.join("file").exists());
        symlink(&kept, &path).unwrap();
        assert!(remove_tree(&path).is_err(), "a link is no directory");
    }
}
