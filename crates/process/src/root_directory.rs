//! Opens paths that never lead out of a directory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

/// A directory below which the kernel resolves paths (`openat2` with `RESOLVE_BENEATH`, since Linux
/// 5.6). A link or rename in it cannot direct a lookup elsewhere.
#[derive(Debug)]
pub struct RootDirectory(OwnedFd);

/// The treatment of symbolic links in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// They are followed below the directory.
    Follow,
    /// One anywhere in the path is an error: ELOOP.
    Reject,
}

impl RootDirectory {
    /// Opens a directory. Links in its own path are followed.
    pub fn open(path: &Path) -> nix::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        open(path, flags, Mode::empty()).map(RootDirectory)
    }

    /// Opens an existing file at a relative path; the empty one is the directory itself. EXDEV if the
    /// path leads out of the directory anywhere, ENOSYS or EPERM without `openat2`.
    pub fn open_beneath(&self, path: &Path, flags: OFlag, links: Links) -> nix::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(links.flags());
        let mut attempts = 0..ATTEMPTS;
        loop {
            match openat2(&self.0, path, how) {
                // A directory was renamed while the kernel resolved a `..`.
                Err(Errno::EAGAIN | Errno::EINTR) if attempts.next().is_some() => {}
                opened => return opened,
            }
        }
    }
}

impl RootDirectory {
    /// Opens a regular file below the directory for reading; links are followed below it. Never blocks.
    /// Errors: it is no regular file, or as [`open_beneath`](Self::open_beneath).
    pub fn open_regular(&self, path: &Path) -> io::Result<File> {
        regular(self.open_beneath(path, READ, Links::Follow)?)
    }
}

/// Opens a regular file for reading; links are followed. Never blocks, as another process may have put a
/// FIFO there. Errors: it is no regular file, or it cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    regular(open(path, READ | OFlag::O_CLOEXEC, Mode::empty())?)
}

const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY);

fn regular(opened: OwnedFd) -> io::Result<File> {
    let file = File::from(opened);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("is not a file")),
    }
}

impl From<OwnedFd> for RootDirectory {
    fn from(directory: OwnedFd) -> Self {
        RootDirectory(directory)
    }
}

impl AsFd for RootDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Links {
    fn flags(self) -> ResolveFlag {
        let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        match self {
            Links::Follow => beneath,
            Links::Reject => beneath | ResolveFlag::RESOLVE_NO_SYMLINKS,
        }
    }
}

/// Attempts for a path that other processes rename meanwhile.
const ATTEMPTS: u32 = 256;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::fstat;

    use super::*;

    #[test]
    fn paths_never_lead_out() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        for file in [root.join("file"), root.join("sub/file"), scratch.path().join("outside")] {
            fs::write(file, "").unwrap();
        }
        let outside = scratch.path().join("outside");
        for (target, link) in [
            (Path::new("sub"), "within"),
            (Path::new("../outside"), "out"),
            (outside.as_path(), "absolute"),
            (Path::new("/proc/self/root"), "magic"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let root = RootDirectory::open(&root).unwrap();
        let (ok, loops, leaves) = (Ok(()), Err(Errno::ELOOP), Err(Errno::EXDEV));
        for (path, followed, rejected) in [
            ("", ok, ok),
            (".", ok, ok),
            ("file", ok, ok),
            ("sub/../file", ok, ok),
            ("missing", Err(Errno::ENOENT), Err(Errno::ENOENT)),
            ("file/x", Err(Errno::ENOTDIR), Err(Errno::ENOTDIR)),
            ("within/file", ok, loops),
            ("within", ok, loops),
            ("..", leaves, leaves),
            ("sub/../../outside", leaves, leaves),
            ("/etc/passwd", leaves, leaves),
            ("out", leaves, loops),
            ("absolute", leaves, loops),
            ("magic", leaves, loops),
        ] {
            let open = |links| root.open_beneath(Path::new(path), OFlag::O_PATH, links).map(drop);
            assert_eq!(open(Links::Follow), followed, "{path:?}");
            assert_eq!(open(Links::Reject), rejected, "{path:?}");
        }
    }

    #[test]
    fn a_directory_that_was_renamed_is_still_the_root() {
        let scratch = tempfile::tempdir().unwrap();
        let [before, after] = ["before", "after"].map(|name| scratch.path().join(name));
        fs::create_dir(&before).unwrap();
        fs::write(before.join("file"), "").unwrap();
        let root = RootDirectory::open(&before).unwrap();
        fs::rename(&before, &after).unwrap();
        let file = root.open_beneath(Path::new("file"), OFlag::O_RDONLY, Links::Reject).unwrap();
        let expected = File::open(after.join("file")).unwrap();
        assert_eq!(fstat(file).unwrap().st_ino, fstat(expected).unwrap().st_ino);
    }
}
