//! The files of a workspace. No path is resolved through a link, or out of the workspace.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aifo_process::{Links, RootDirectory};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, readlinkat, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// A workspace.
#[derive(Debug)]
pub struct Tree(RootDirectory);

/// An object at a path.
#[derive(Debug)]
pub enum Object {
    /// There is none.
    Missing,
    /// A regular file.
    File(Metadata),
    /// A symbolic link, and its target.
    Link(Vec<u8>),
    /// A directory.
    Directory(Metadata),
    /// A path behind a link or file.
    Behind,
    /// A device, FIFO or socket, or an object that cannot be read.
    Other,
}

impl Tree {
    /// Opens a workspace. Links in its own path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Tree(RootDirectory::open(path)?))
    }

    /// Returns a path of the root itself, whatever its name is now.
    pub fn root(&self) -> PathBuf {
        descriptor(self.0.as_fd())
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &Path) -> Object {
        let found = match self.resolve(path, OFlag::O_PATH | OFlag::O_NOFOLLOW) {
            Ok(found) => File::from(found),
            Err(Errno::ENOENT) => return Object::Missing,
            Err(Errno::ENOTDIR | Errno::ELOOP) => return Object::Behind,
            Err(_) => return Object::Other,
        };
        match found.metadata() {
            Ok(metadata) if metadata.is_file() => Object::File(metadata),
            Ok(metadata) if metadata.is_dir() => Object::Directory(metadata),
            Ok(metadata) if metadata.is_symlink() => match readlinkat(&found, "") {
                Ok(target) => Object::Link(target.into_vec()),
                Err(_) => Object::Other,
            },
            _ => Object::Other,
        }
    }

    /// Opens a regular file, and returns whether its owner may execute it. Never blocks.
    pub fn open_file(&self, path: &Path) -> io::Result<(File, bool)> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = File::from(self.resolve(path, flags)?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok((file, metadata.permissions().mode() & 0o100 != 0)),
            false => Err(io::Error::other("is not a file")),
        }
    }

    /// Reads a regular file of at most `limit` bytes; `None` without one.
    pub fn read(&self, path: &Path, limit: u64) -> Option<Vec<u8>> {
        let (file, _) = self.open_file(path).ok()?;
        let mut bytes = Vec::new();
        let count = file.take(limit + 1).read_to_end(&mut bytes).ok()?;
        (count as u64 <= limit).then_some(bytes)
    }

    /// Returns the names in a directory.
    pub fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let directory = self.open_directory(directory)?;
        let entries = fs::read_dir(descriptor(directory.as_fd()))?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// Opens a directory for reading.
    pub fn open_directory(&self, directory: &Path) -> io::Result<OwnedFd> {
        Ok(self.resolve(directory, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?)
    }

    /// Opens the directory that contains a path, and returns it with the last name. Errors: it is missing.
    pub fn open_parent(&self, path: &Path) -> io::Result<(OwnedFd, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((self.resolve(above, OFlag::O_PATH | OFlag::O_DIRECTORY)?, name))
    }

    /// Creates or truncates a file, with missing directories.
    pub fn create(&self, path: &Path, is_executable: bool) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(file_mode(is_executable));
        options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
        options.open(descriptor(parent.as_fd()).join(name))
    }

    /// Moves a file or link to a path, with missing directories. An existing file is replaced only if `replaces`,
    /// and its permissions stay but for execution.
    pub fn place(&self, staged: &Path, path: &Path, replaces: bool) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let staged_metadata = staged.symlink_metadata()?;
        if replaces
            && staged_metadata.is_file()
            && let Object::File(replaced) = self.object(path)
        {
            let (old, new) = (replaced.permissions().mode(), staged_metadata.permissions().mode());
            let kept = old & 0o666;
            let execute = if new & 0o100 == 0 { 0 } else { (kept & 0o444) >> 2 | 0o100 };
            fs::set_permissions(staged, Permissions::from_mode(kept | execute))?;
        }
        let flags = if replaces { RenameFlags::empty() } else { RenameFlags::RENAME_NOREPLACE };
        Ok(renameat2(AT_FDCWD, staged, &parent, Path::new(&name), flags)?)
    }

    /// Removes a file or link, and the directories above it that become empty.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let mut path = path;
        let mut flags = UnlinkatFlags::NoRemoveDir;
        while let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            let directory = self.resolve(parent, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
            match (unlinkat(&directory, name, flags), flags) {
                (Ok(()), _) => {}
                (Err(error), UnlinkatFlags::NoRemoveDir) => return Err(error.into()),
                // It has other files.
                (Err(_), UnlinkatFlags::RemoveDir) => break,
            }
            (path, flags) = (parent, UnlinkatFlags::RemoveDir);
        }
        Ok(())
    }

    /// Opens the directory of a path, and creates missing ones.
    fn parent(&self, path: &Path) -> io::Result<(OwnedFd, OsString)> {
        let directories = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let above = path.parent().unwrap_or(Path::new(""));
        match self.resolve(above, directories) {
            Err(Errno::ENOENT) => {}
            opened => return Ok((opened?, name)),
        }
        let mut directory = self.resolve(Path::new(""), directories)?;
        for part in above.iter().map(Path::new) {
            match mkdirat(&directory, part, Mode::S_IRWXU | Mode::S_IRWXG | Mode::S_IRWXO) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let inner = RootDirectory::from(directory);
            directory = inner.open_beneath(part, directories, Links::Reject)?;
        }
        Ok((directory, name))
    }

    fn resolve(&self, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
        self.0.open_beneath(path, flags, Links::Reject)
    }
}

/// Returns the mode of a new file, before the umask.
pub fn file_mode(is_executable: bool) -> u32 {
    if is_executable { 0o777 } else { 0o666 }
}

fn descriptor(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
