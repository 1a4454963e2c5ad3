//! Access to a mailbox directory through one descriptor.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, openat, renameat},
    sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};

/// A directory that other processes may change at any time. All names are looked up relative to one
/// descriptor and must not contain `/`.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// Why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No such file.
    #[error("does not exist")]
    Missing,
    /// A link, directory, FIFO, device or socket, or a file with several names.
    #[error("is not a regular file")]
    NotRegular,
    /// Larger than the limit.
    #[error("is larger than {} MiB", .0 / (1024 * 1024))]
    TooLarge(u64),
    /// A system call failed.
    #[error("cannot be read: {}", .0.desc())]
    Io(Errno),
}

impl Directory {
    /// Opens a directory by path, following links. Creates missing components.
    pub fn open_or_create(path: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self::open(path)?)
    }

    /// Opens an existing directory.
    pub fn open(path: &Path) -> nix::Result<Self> {
        open(path, DIRECTORY, Mode::empty()).map(Directory)
    }

    /// Opens a subdirectory, or creates it. Errors: ELOOP or ENOTDIR if the name is a link or
    /// anything but a directory.
    pub fn open_subdirectory(&self, name: &str) -> nix::Result<Self> {
        match mkdirat(&self.0, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        openat(&self.0, name, DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty()).map(Directory)
    }

    /// Creates a file for writing. Errors: EEXIST if the name exists.
    pub fn create(&self, name: &str) -> nix::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        self.create_with(name, flags)
    }

    /// Creates a file for reading and writing.
    pub(crate) fn create_read_write(&self, name: &str) -> nix::Result<File> {
        self.create_with(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    fn create_with(&self, name: &str, flags: OFlag) -> nix::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.0, name, flags, Mode::from_bits_truncate(0o666)).map(File::from)
    }

    /// Atomically replaces the file of this name, unless it is a directory.
    pub fn replace(
        &self,
        name: &str,
        mode: u32,
        fill: impl FnOnce(&mut File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let draft = format!("{name}.tmp");
        // A leftover of a killed process. If it cannot be removed, create fails.
        let _ = self.remove(&draft);
        let mut file = self.create(&draft)?;
        let filled = fill(&mut file).and_then(|()| {
            fchmod(&file, Mode::from_bits_truncate(mode))?;
            drop(file);
            Ok(self.rename(&draft, name)?)
        });
        if filled.is_err() {
            let _ = self.remove(&draft);
        }
        filled
    }

    /// Like [`Directory::replace`], with the content in memory.
    pub fn replace_bytes(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.replace(name, 0o644, |file| file.write_all(bytes))
    }

    /// Opens a regular file for reading. Other types are not opened at all: a FIFO could block, and
    /// opening a device can have side effects.
    pub fn open_regular(&self, name: &str) -> Result<File, FileError> {
        self.open_as(name, OFlag::O_RDONLY)
    }

    /// Opens a regular file for reading and writing.
    pub(crate) fn open_regular_read_write(&self, name: &str) -> Result<File, FileError> {
        self.open_as(name, OFlag::O_RDWR)
    }

    fn open_as(&self, name: &str, access: OFlag) -> Result<File, FileError> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = openat(&self.0, name, flags, Mode::empty())?;
        let stat = fstat(&found)?;
        if !is_regular(&stat) || stat.st_nlink > 1 {
            return Err(FileError::NotRegular);
        }
        let flags = access | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        Ok(open(proc_fd_path(found.as_fd()).as_str(), flags, Mode::empty()).map(File::from)?)
    }

    /// Reads a regular file of at most `limit` bytes.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let file = self.open_regular(name)?;
        let mut bytes = Vec::new();
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| FileError::Io(Errno::from_raw(error.raw_os_error().unwrap_or(0))))?;
        if bytes.len() as u64 > limit {
            return Err(FileError::TooLarge(limit));
        }
        Ok(bytes)
    }

    /// Returns whether the name exists.
    pub fn exists(&self, name: &str) -> bool {
        self.stat(name).is_ok()
    }

    /// Returns whether the name still refers to this file.
    pub(crate) fn is_named(&self, file: &File, name: &str) -> bool {
        let identity = |stat: FileStat| (stat.st_dev, stat.st_ino);
        matches!((fstat(file), self.stat(name)), (Ok(file), Ok(named)) if identity(file) == identity(named))
    }

    pub(crate) fn stat(&self, name: &str) -> nix::Result<FileStat> {
        fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    /// Renames a file and replaces the target. Errors: EISDIR and the like if the target is a
    /// directory.
    pub fn rename(&self, from: &str, to: &str) -> nix::Result<()> {
        renameat(&self.0, from, &self.0, to)
    }

    /// Removes a file of any type but a directory.
    pub fn remove(&self, name: &str) -> nix::Result<()> {
        unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)
    }

    /// Calls `call` with every name, without collecting them: their number is not limited.
    pub fn for_each_name(&self, mut call: impl FnMut(&[u8])) -> nix::Result<()> {
        let mut listing = Dir::openat(&self.0, ".", DIRECTORY, Mode::empty())?;
        for entry in listing.iter() {
            call(CStr::to_bytes(entry?.file_name()));
        }
        Ok(())
    }

    /// Returns whether the directory has been removed.
    pub fn is_removed(&self) -> bool {
        fstat(&self.0).map_or(true, |stat| stat.st_nlink == 0)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT => FileError::Missing,
            errno => FileError::Io(errno),
        }
    }
}

/// Returns a path of an open file that does not depend on its name.
pub(crate) fn proc_fd_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub(crate) fn is_regular(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
}

const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::unistd::mkfifo;

    /// A temporary directory, removed on drop.
    pub(crate) struct Scratch(tempfile::TempDir);

    impl Scratch {
        pub(crate) fn new() -> Self {
            Scratch(tempfile::tempdir().unwrap())
        }

        pub(crate) fn path(&self) -> &Path {
            self.0.path()
        }

        pub(crate) fn directory(&self) -> Directory {
            Directory::open(self.path()).unwrap()
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let scratch = Scratch::new();
        let outside = Scratch::new();
        let (directory, path) = (scratch.directory(), |name: &str| scratch.path().join(name));
        fs::write(outside.path().join("secret"), "secret").unwrap();
        fs::write(path("plain"), "12345").unwrap();
        symlink(outside.path().join("secret"), path("link")).unwrap();
        symlink("/dev/zero", path("device")).unwrap();
        fs::hard_link(outside.path().join("secret"), path("second")).unwrap();
        mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
        fs::create_dir(path("subdirectory")).unwrap();

        assert_eq!(directory.read("plain", 5), Ok(b"12345".to_vec()));
        assert_eq!(directory.read("plain", 4), Err(FileError::TooLarge(4)));
        for name in ["link", "device", "second", "fifo", "subdirectory"] {
            assert_eq!(directory.read(name, 5), Err(FileError::NotRegular), "{name}");
            assert_eq!(directory.create(name).unwrap_err(), Errno::EEXIST, "{name}");
        }
        assert_eq!(directory.read("none", 5), Err(FileError::Missing));
        let mut names = Vec::new();
        directory
            .for_each_name(|name| names.push(String::from_utf8(name.to_vec()).unwrap()))
            .unwrap();
        assert_eq!(names.len(), 8, "including '.' and '..': {names:?}");
    }

    #[test]
    fn replace_does_not_follow_links() {
        let scratch = Scratch::new();
        let outside = Scratch::new();
        let target = outside.path().join("target");
        fs::write(&target, "kept").unwrap();
        for name in ["make", "make.tmp"] {
            symlink(&target, scratch.path().join(name)).unwrap();
        }
        let directory = scratch.directory();
        directory.replace("make", 0o755, |file| file.write_all(b"client")).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        assert_eq!(fs::read(scratch.path().join("make")).unwrap(), b"client");
        let mode = fs::symlink_metadata(scratch.path().join("make")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        fs::create_dir(scratch.path().join("other")).unwrap();
        assert!(directory.replace_bytes("other", b"x").is_err());
        assert!(!directory.exists("other.tmp"));
    }

    #[test]
    fn the_descriptor_outlives_a_rename() {
        let scratch = Scratch::new();
        let outside = Scratch::new();
        let base = scratch.directory();
        let directory = base.open_subdirectory("proxy").unwrap();
        fs::rename(scratch.path().join("proxy"), scratch.path().join("moved")).unwrap();
        symlink(outside.path(), scratch.path().join("proxy")).unwrap();
        directory.create("a").unwrap();
        assert!(scratch.path().join("moved/a").is_file() && !outside.path().join("a").exists());
        assert!(base.open_subdirectory("proxy").is_err(), "now a link");
        assert!(!directory.is_removed());
        fs::remove_dir_all(scratch.path().join("moved")).unwrap();
        assert!(directory.is_removed());
    }
}
