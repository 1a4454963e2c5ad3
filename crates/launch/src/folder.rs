//! Folders that are gone when the session is.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::getuid;

/// A folder of our own, with mode 0700, removed with all its contents when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a folder that did not exist. Nobody else can have prepared it: an existing path,
    /// be it a link, is an error.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A tool may have left a directory here that forbids us to empty it; nothing can be done
        // about that from a destructor, and the folder is in a temporary place.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// How the names of session folders begin.
pub(crate) const PREFIX: &str = "aifo-";

/// Where sockets go: short, on this machine, ours alone. `$XDG_RUNTIME_DIR` where it is that, else
/// the temporary directory, where the session's own folder does the keeping apart.
pub(crate) fn runtime_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.filter(|path| is_ours(path)).unwrap_or_else(std::env::temp_dir)
}

fn is_ours(path: &Path) -> bool {
    path.is_absolute()
        && path.symlink_metadata().is_ok_and(|metadata| {
            metadata.is_dir() && metadata.uid() == getuid().as_raw() && metadata.mode() & 0o022 == 0
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_goes_with_its_owner() {
        let path = std::env::temp_dir().join(format!("aifo-folder-{}", std::process::id()));
        let folder = Folder::create(path.clone()).unwrap();
        std::fs::create_dir(path.join("sub")).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(Folder::create(path.clone()).is_err(), "it exists");
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn what_others_can_write_is_not_ours() {
        assert!(!is_ours(Path::new("/tmp")));
        assert!(!is_ours(Path::new("relative")));
        assert!(!is_ours(Path::new("/nonexistent")));
    }
}
