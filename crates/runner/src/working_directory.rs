//! Opening and checking the working directory of a call.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_process::{current_path, file_id};
use aifo_types::{FileId, replaced_while_waiting};
use aifo_wire::{OutsideDirectory, Setup};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

/// The directories in which tools may run, under all of their names, with links resolved.
#[derive(Debug)]
pub(crate) struct Roots {
    /// The default directory: the workspace under its first name.
    root: PathBuf,
    workspace: Vec<PathBuf>,
    tmp: Vec<PathBuf>,
}

/// An opened working directory. The tool starts in the descriptor, so the path cannot be swapped
/// afterwards.
#[derive(Debug)]
pub(crate) struct WorkingDirectory {
    pub(crate) fd: OwnedFd,
    /// The real path, for PWD.
    pub(crate) path: PathBuf,
}

impl Roots {
    /// Resolves the directories. Errors: one is missing or not a directory.
    pub(crate) fn new(setup: &Setup) -> Result<Self, String> {
        let resolve = |path: &[u8]| {
            let path = Path::new(OsStr::from_bytes(path));
            path.canonicalize().map_err(|error| format!("'{}': {error}", path.display()))
        };
        let all = |names: &[Vec<u8>]| -> Result<Vec<_>, _> {
            names.iter().map(|name| resolve(name)).collect()
        };
        let workspace = all(&setup.workspace)?;
        let root = workspace.first().ok_or("no workspace path was given")?.clone();
        Ok(Roots { root, workspace, tmp: all(&setup.tmp)? })
    }

    /// Returns the workspace under its first name.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the workspace root that contains `path`.
    pub(crate) fn workspace_root_of(&self, path: &Path) -> &Path {
        let containing = self.workspace.iter().find(|root| path.starts_with(root));
        containing.unwrap_or(&self.root)
    }

    /// Opens the working directory of a call, which must be `expected`. Errors are messages for the caller.
    pub(crate) fn open(
        &self,
        cwd: Option<&[u8]>,
        outside_directory: OutsideDirectory,
        expected: Option<FileId>,
    ) -> Result<WorkingDirectory, String> {
        let opened = self.open_any(cwd, outside_directory)?;
        match expected {
            Some(expected) if file_id(&opened.fd) != Ok(expected) => {
                Err(replaced_while_waiting(&opened.path))
            }
            _ => Ok(opened),
        }
    }

    fn open_any(
        &self,
        cwd: Option<&[u8]>,
        outside_directory: OutsideDirectory,
    ) -> Result<WorkingDirectory, String> {
        let Some(cwd) = cwd else { return open_directory(&self.root) };
        let cwd = Path::new(OsStr::from_bytes(cwd));
        let opened = open_directory(cwd);
        match opened {
            Ok(directory) if self.contains(&directory.path) => Ok(directory),
            Ok(_) if outside_directory == OutsideDirectory::UseRoot => open_directory(&self.root),
            // A directory outside of the workspace may not exist in the sidecar.
            Err(_) if outside_directory == OutsideDirectory::UseRoot && !self.contains(cwd) => {
                open_directory(&self.root)
            }
            Ok(_) => Err(format!("cwd '{}' lies outside the workspace", cwd.display())),
            Err(reason) => Err(reason),
        }
    }

    fn contains(&self, path: &Path) -> bool {
        self.workspace.iter().chain(&self.tmp).any(|root| path.starts_with(root))
    }
}

fn open_directory(path: &Path) -> Result<WorkingDirectory, String> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let fd = open(path, flags, Mode::empty()).map_err(|errno| {
        let path = path.display();
        match errno {
            Errno::ENOENT => format!("cwd '{path}' does not exist where the tool runs"),
            Errno::ENOTDIR => format!("cwd '{path}' is not a directory"),
            errno => format!("cannot open cwd '{path}': {}", errno.desc()),
        }
    })?;
    // The real path of the descriptor, whatever links the given path contains.
    let path = current_path(&fd)
        .map_err(|error| format!("cannot resolve cwd '{}': {error}", path.display()))?;
    Ok(WorkingDirectory { fd, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_is_judged_by_its_real_path() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path();
        let path = |name: &str| base.join(name);
        for name in ["ws/sub", "ws-evil", "again", "tmp", "out"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        symlink(path("out"), path("ws/leaves")).unwrap();
        symlink(path("ws/sub"), path("out/enters")).unwrap();
        std::fs::write(path("ws/file"), "").unwrap();
        let bytes = |name: &str| path(name).as_os_str().as_bytes().to_vec();
        let setup = |workspace: &[&str], tmp: &[&str]| Setup {
            workspace: workspace.iter().map(|name| bytes(name)).collect(),
            tmp: tmp.iter().map(|name| bytes(name)).collect(),
            kind: "rust".into(),
        };
        let roots = Roots::new(&setup(&["ws", "again"], &["tmp"])).unwrap();

        let at = |name: &str, outside_directory| {
            let opened = roots.open(Some(&bytes(name)), outside_directory, None);
            opened.map(|directory| {
                directory.path.strip_prefix(base).unwrap().to_str().unwrap().to_owned()
            })
        };
        let rows = [
            ("ws", "ws"),
            ("ws/sub", "ws/sub"),
            ("ws/sub/..", "ws"),
            ("out/enters", "ws/sub"),
            ("again", "again"),
            ("tmp", "tmp"),
        ];
        for (name, real) in rows {
            assert_eq!(at(name, OutsideDirectory::Refuse).as_deref(), Ok(real), "{name}");
        }
        let rows = [
            ("ws/leaves", "lies outside"),
            ("ws-evil", "lies outside"),
            ("ws/..", "lies outside"),
            ("ws/file", "not a directory"),
            ("ws/none", "does not exist"),
        ];
        for (name, reason) in rows {
            let refused = at(name, OutsideDirectory::Refuse).unwrap_err();
            assert!(refused.contains(reason), "{name}: {refused}");
            let at_root = at(name, OutsideDirectory::UseRoot);
            match reason {
                "lies outside" => assert_eq!(at_root.as_deref(), Ok("ws"), "{name}"),
                _ => assert_eq!(at_root, Err(refused), "{name} is missing inside"),
            }
        }
        let at_root = at("nowhere", OutsideDirectory::UseRoot);
        assert_eq!(at_root.as_deref(), Ok("ws"), "outside, and not there");
        let root = roots.open(None, OutsideDirectory::Refuse, None).unwrap();
        let real = |name: &str| path(name).canonicalize().unwrap();
        assert_eq!(root.path, real("ws"), "the first name");
        for (expected, is_open) in [("ws", true), ("ws/sub", false)] {
            let expected = WorkingDirectory { ..open_directory(&path(expected)).unwrap() };
            let expected = Some(file_id(&expected.fd).unwrap());
            let opened = roots.open(Some(&bytes("ws")), OutsideDirectory::Refuse, expected);
            assert_eq!(
                opened.map(drop).map_err(|why| why.contains("was replaced")),
                match is_open {
                    true => Ok(()),
                    false => Err(true),
                }
            );
        }
        assert_eq!(roots.workspace_root_of(&real("again")), real("again"));
        assert_eq!(roots.workspace_root_of(&real("tmp")), real("ws"));

        let alone = Roots::new(&setup(&["ws"], &[])).unwrap();
        let refused = alone.open(Some(&bytes("tmp")), OutsideDirectory::Refuse, None).unwrap_err();
        assert!(refused.contains("lies outside"), "{refused}");
        assert!(Roots::new(&setup(&["none"], &[])).unwrap_err().contains("none"));
        assert!(Roots::new(&setup(&[], &["tmp"])).unwrap_err().contains("no workspace path"));
    }
}
