//! Resolves an agent's paths within the workspace.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_acp::RpcError;
use aifo_process::{Links, RootDirectory, descriptor_path};
use nix::errno::Errno;
use nix::fcntl::{OFlag, readlink};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};

use crate::rpc::{invalid, refused};

/// An opened workspace. The kernel resolves paths below its descriptor and never leaves it
/// (`spec/acp-hosts.md#paths`).
#[derive(Debug)]
pub struct Workspace {
    root: RootDirectory,
    path: PathBuf,
    /// The longest first, as one may lie below the other.
    names: Vec<PathBuf>,
}

/// The location of an agent path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Beneath the workspace, relative to it; links are followed.
    Beneath(PathBuf),
    /// Spelled below the workspace, but leads out of it or cannot be resolved.
    Nowhere,
    /// Spelled outside of the workspace, and not resolved.
    Elsewhere,
}

impl Workspace {
    /// Opens the directory at `path`, which agents know by this path and by others, such as
    /// `/workspace` in a container. Errors: it is no directory, or the kernel (before 5.6) has no
    /// `openat2`, which confines an agent to it.
    pub fn open(path: PathBuf, others: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let root = RootDirectory::open(&path)?;
        let mut names: Vec<_> = std::iter::once(path.clone()).chain(others).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.components().count()));
        let workspace = Workspace { root, path, names };
        match workspace.open_beneath(Path::new(""), OFlag::O_PATH) {
            Ok(_) => Ok(workspace),
            // Old seccomp profiles of containers return EPERM.
            Err(Errno::ENOSYS | Errno::EPERM) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "openat2 is not available, so agents cannot be confined to the workspace",
            )),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns an agent path relative to the workspace, by its spelling alone.
    pub(crate) fn beneath<'a>(&self, path: &'a str) -> Result<&'a Path, RpcError> {
        if path.len() > LONGEST || path.contains('\0') {
            return Err(invalid("the path is not valid"));
        }
        if !path.starts_with('/') {
            return Err(invalid(format!("'{path}' is not absolute")));
        }
        let mut beneath =
            self.names.iter().filter_map(|name| Path::new(path).strip_prefix(name).ok());
        beneath.next().ok_or_else(|| invalid(format!("'{path}' is outside the workspace")))
    }

    /// Opens a relative path; the empty one is the workspace itself. EXDEV if the path leads out of
    /// the workspace anywhere.
    pub(crate) fn open_beneath(&self, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
        self.root.open_beneath(path, flags, Links::Follow)
    }

    /// Returns the current path of an opened file, relative to the workspace. ENOENT if it was removed,
    /// EXDEV if it was moved out.
    pub(crate) fn real_path(&self, opened: BorrowedFd<'_>) -> nix::Result<PathBuf> {
        let named = |fd: BorrowedFd<'_>| {
            let path = readlink(&descriptor_path(&fd))?;
            // The kernel's suffix of a removed name; an existing name may end like this.
            let is_marked = path.as_bytes().ends_with(b" (deleted)");
            match is_marked && fstat(fd)?.st_nlink == 0 {
                true => Err(Errno::ENOENT),
                false => Ok(PathBuf::from(path)),
            }
        };
        let (root, path) = (named(self.root.as_fd())?, named(opened)?);
        path.strip_prefix(root).map(Path::to_owned).map_err(|_| Errno::EXDEV)
    }

    /// Resolves an agent path, links included.
    pub fn resolve(&self, path: &str) -> Resolved {
        match self.beneath(path).map(|beneath| self.resolve_beneath(beneath)) {
            Ok(Ok(path)) => Resolved::Beneath(path),
            Ok(Err(_)) => Resolved::Nowhere,
            Err(_) => Resolved::Elsewhere,
        }
    }

    /// Returns the path on this machine of an agent path: beneath the workspace, without links, for
    /// a program that does not confine itself. Links may be created later. Errors: it leads out of the
    /// workspace, cannot be resolved, or ends in a link to a missing file.
    pub fn host_path(&self, path: &str) -> Result<PathBuf, RpcError> {
        let beneath = self.beneath(path)?;
        let real = self.resolve_beneath(beneath).map_err(|errno| refused(path, errno))?;
        // ELOOP at a link to a missing file, which the editor would create.
        match self.root.open_beneath(&real, OFlag::O_PATH, Links::Reject) {
            Ok(_) | Err(Errno::ENOENT) => Ok(self.path.join(real)),
            Err(errno) => Err(refused(path, errno)),
        }
    }

    /// Resolves the existing part of a path, links included, and appends the missing part as spelled.
    pub(crate) fn resolve_beneath(&self, path: &Path) -> nix::Result<PathBuf> {
        match (self.open_beneath(path, OFlag::O_PATH), path.parent(), path.file_name()) {
            (Ok(opened), ..) => self.real_path(opened.as_fd()),
            (Err(Errno::ENOENT), Some(parent), Some(name)) => {
                Ok(self.resolve_beneath(parent)?.join(name))
            }
            (Err(errno), ..) => Err(errno),
        }
    }

    /// Opens a directory by an agent path.
    pub(crate) fn directory(&self, path: &str) -> Result<OwnedFd, RpcError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let opened = self.open_beneath(self.beneath(path)?, flags);
        opened.map_err(|errno| match errno {
            Errno::ENOTDIR => invalid(format!("'{path}' is not a directory")),
            errno => refused(path, errno),
        })
    }

    /// Opens a directory at a relative path, and creates missing ones.
    pub(crate) fn open_or_make(&self, path: &Path) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        match (self.open_beneath(path, flags), path.parent(), path.file_name()) {
            (Err(Errno::ENOENT), Some(parent), Some(name)) => {
                make(&self.open_or_make(parent)?, name)?;
                self.open_beneath(path, flags)
            }
            (opened, ..) => opened,
        }
    }
}

/// The kernel's limit on paths.
const LONGEST: usize = 4095;

/// Creates a directory; one that exists is no error.
fn make(parent: &OwnedFd, name: &OsStr) -> nix::Result<()> {
    match mkdirat(parent, name, Mode::from_bits_truncate(0o777)) {
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}

/// Returns a regular file and its status. EISDIR for any other type.
pub(crate) fn regular(fd: OwnedFd) -> nix::Result<(File, FileStat)> {
    let stat = fstat(&fd)?;
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => Ok((File::from(fd), stat)),
        _ => Err(Errno::EISDIR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_a_name_are_beneath() {
        let folder = std::env::temp_dir();
        let names = ["/ws", "/ws/inner/real", "/workspace"].map(PathBuf::from);
        let workspace = Workspace::open(folder.clone(), names).unwrap();
        let own = folder.join("a");
        let rows = [
            (own.to_str().unwrap(), Some("a")),
            ("/ws/a/b", Some("a/b")),
            ("/ws", Some("")),
            ("//ws/./a//b/", Some("a/b")),
            ("/workspace/a", Some("a")),
            ("/ws/inner/a", Some("inner/a")),
            ("/ws/inner/real/a", Some("a")),
            // The kernel resolves the rest.
            ("/ws/../x", Some("../x")),
            ("/ws-evil/a", None),
            ("/wsa", None),
            ("/w", None),
            ("/", None),
            ("/../ws/a", None),
            ("ws/a", None),
            ("./a", None),
            ("~/a", None),
            ("", None),
            ("/ws/a\0b", None),
        ];
        for (path, expected) in rows {
            assert_eq!(workspace.beneath(path).ok(), expected.map(Path::new), "{path:?}");
        }
        let long = format!("/ws/{}", "a/".repeat(LONGEST));
        let refused = workspace.beneath(&long).unwrap_err();
        assert!(refused.message.len() < 100, "a long path is not repeated");
    }

    #[test]
    fn missing_components_are_kept_as_spelled() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::create_dir_all(folder.join(".git/sub")).unwrap();
        std::fs::write(folder.join(".git/config"), "").unwrap();
        std::fs::write(folder.join("x (deleted)"), "").unwrap();
        for (target, link) in [
            (".git", "dir"),
            (".git/config", "file"),
            ("..", "up"),
            ("loop", "loop"),
            ("no", "no-one"),
        ] {
            std::os::unix::fs::symlink(target, folder.join(link)).unwrap();
        }
        let workspace = Workspace::open(folder.to_owned(), [PathBuf::from("/ws")]).unwrap();
        let rows = [
            ("/ws/.git/config", Some(".git/config")),
            ("/ws/file", Some(".git/config")),
            ("/ws/dir/config", Some(".git/config")),
            ("/ws/dir/sub/../new/er", Some(".git/new/er")),
            ("/ws/new/er", Some("new/er")),
            ("/ws/no-one", Some("no-one")),
            ("/ws/x (deleted)", Some("x (deleted)")),
            ("/ws", Some("")),
            ("/ws/up/x", None),
            ("/ws/loop", None),
        ];
        for (path, expected) in rows {
            let expected =
                expected.map_or(Resolved::Nowhere, |path| Resolved::Beneath(path.into()));
            assert_eq!(workspace.resolve(path), expected, "{path}");
            let host = match expected {
                // A link to a missing file.
                _ if path == "/ws/no-one" => None,
                Resolved::Beneath(path) => Some(folder.join(path)),
                Resolved::Nowhere | Resolved::Elsewhere => None,
            };
            assert_eq!(workspace.host_path(path).ok(), host, "{path}");
        }
        for path in ["/etc/passwd", "x", "/ws-evil"] {
            assert_eq!(workspace.resolve(path), Resolved::Elsewhere, "{path}");
        }
        let gone = workspace.open_beneath(Path::new(".git/config"), OFlag::O_RDONLY).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(workspace.real_path(gone.as_fd()), Err(Errno::ENOENT));
    }

    #[test]
    fn a_workspace_is_a_directory() {
        let file = std::env::current_exe().unwrap();
        assert!(Workspace::open(file, []).is_err());
        assert!(Workspace::open("/nonexistent/aifo".into(), []).is_err());
    }
}
