//! Files below a directory, opened without following links.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aifo_process::{Links, RootDirectory};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::stat::{Mode, mkdirat},
    unistd::getuid,
};
use tempfile::NamedTempFile;

/// A directory. Paths are relative to it; a link anywhere in a path is an error.
#[derive(Debug)]
pub struct Beneath(RootDirectory);

/// The file at a path.
#[derive(Debug)]
pub enum Found {
    /// There is none.
    Missing,
    /// It must not be read, for this reason.
    Rejected(&'static str),
    /// A regular file of the user.
    File(Vec<u8>, Stamp),
}

/// Changes whenever a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    size: u64,
    /// When its content changed.
    pub modified: SystemTime,
}

impl Beneath {
    /// Opens a directory; links in its own path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Beneath(RootDirectory::open(path)?))
    }

    /// Reads a regular file of at most `limit` bytes. Never blocks.
    pub fn read(&self, path: &Path, limit: u64) -> Found {
        let file = match self.open_file(path) {
            Ok(file) => file,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Found::Missing,
            Err(Errno::ELOOP) => return Found::Rejected("is a link, or lies behind one"),
            Err(_) => return Found::Rejected("cannot be read"),
        };
        let Ok(metadata) = file.metadata() else { return Found::Rejected("cannot be read") };
        if !metadata.is_file() || metadata.uid() != getuid().as_raw() {
            return Found::Rejected("is not a regular file of yours");
        }
        let Ok(stamp) = Stamp::of(&metadata) else { return Found::Rejected("cannot be read") };
        let mut bytes = Vec::new();
        match file.take(limit + 1).read_to_end(&mut bytes) {
            Ok(read) if read as u64 > limit => Found::Rejected("is too large"),
            Ok(_) => Found::File(bytes, stamp),
            Err(_) => Found::Rejected("cannot be read"),
        }
    }

    /// Returns the stamp of a regular file; `None` if there is none.
    pub fn stamp(&self, path: &Path) -> Option<Stamp> {
        let file = File::from(self.resolve(path, OFlag::O_PATH).ok()?);
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        Stamp::of(&metadata).ok()
    }

    /// Opens a file for reading, which need not be regular.
    pub fn open_file(&self, path: &Path) -> Result<File, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        self.resolve(path, flags).map(File::from)
    }

    /// Lists a directory.
    pub fn entries(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let directory = self.resolve(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let entries = fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        entries.map(|entry| Ok(path.join(entry?.file_name()))).collect()
    }

    /// Creates a directory and its parents with mode 0700. A file or link in its place is removed:
    /// only an agent's own state has such.
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.directory(path, true).map(drop)
    }

    /// Writes a file with mode 0600 and moves it to its place, with missing parents. With `expected`,
    /// only if the file there is still the one with this stamp; `None` if it was missing.
    pub fn replace(
        &self,
        path: &Path,
        bytes: &[u8],
        expected: Option<Option<Stamp>>,
    ) -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.directory(path.parent().unwrap_or(Path::new("")), false)?;
        let parent_path = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd()));
        let mut draft = NamedTempFile::with_prefix_in(".aifo-", &parent_path)?;
        draft.write_all(bytes)?;
        draft.as_file().sync_data()?;
        if expected.is_some_and(|expected| self.stamp(path) != expected) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        draft.persist(parent_path.join(name))?;
        Ok(())
    }

    /// Opens a directory, and creates missing ones.
    fn directory(&self, path: &Path, removes: bool) -> io::Result<OwnedFd> {
        let mut directory = self.resolve(Path::new("."), OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        for name in path.iter().map(Path::new) {
            let inner = Beneath(directory.into());
            let open = || inner.resolve(name, OFlag::O_PATH | OFlag::O_DIRECTORY);
            directory = match open() {
                Err(error @ (Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)) => {
                    if error != Errno::ENOENT {
                        if !removes {
                            return Err(error.into());
                        }
                        let at = format!("/proc/self/fd/{}", inner.0.as_fd().as_raw_fd());
                        fs::remove_file(Path::new(&at).join(name))?;
                    }
                    match mkdirat(&inner.0, name, Mode::S_IRWXU) {
                        Ok(()) | Err(Errno::EEXIST) => open()?,
                        Err(error) => return Err(error.into()),
                    }
                }
                opened => opened?,
            };
        }
        Ok(directory)
    }

    fn resolve(&self, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
        self.0.open_beneath(path, flags, Links::Reject)
    }
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> io::Result<Self> {
        let (inode, size, modified) = (metadata.ino(), metadata.size(), metadata.modified()?);
        Ok(Stamp { inode, size, modified })
    }
}
