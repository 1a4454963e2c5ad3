//! Restores the mode of a private directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::geteuid;

use crate::descriptor_path::descriptor_path;

/// Sets the mode of a directory to 0700 if it is this user's: a tool that may write in it can change
/// its mode. A last component that is a link is not followed. A failure is ignored; an access to the
/// directory reports it.
pub fn restore_private_mode(directory: &Path) {
    // O_PATH opens a directory of any mode.
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let Ok(opened) = open(directory, flags, Mode::empty()) else { return };
    let is_changed = fstat(&opened)
        .is_ok_and(|stat| stat.st_uid == geteuid().as_raw() && stat.st_mode & MODE_BITS != PRIVATE);
    if is_changed {
        // `fchmod` rejects O_PATH descriptors.
        let path = descriptor_path(&opened);
        let _ = fs::set_permissions(path, Permissions::from_mode(PRIVATE));
    }
}

const PRIVATE: u32 = 0o700;
const MODE_BITS: u32 = 0o7777;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::unistd::{Gid, Uid, chown};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & MODE_BITS
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_becomes_private() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("cache");
        fs::create_dir(&directory).unwrap();
        for changed in [0o000, 0o500, 0o777, 0o1733, 0o2700] {
            set_mode(&directory, changed);
            restore_private_mode(&directory);
            assert_eq!(mode(&directory), PRIVATE, "{changed:o}");
        }
    }

    #[test]
    fn links_files_and_missing_paths_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let [target, link, file, missing] =
            ["target", "link", "file", "missing"].map(|name| scratch.path().join(name));
        fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        fs::write(&file, "").unwrap();
        set_mode(&target, 0o755);
        set_mode(&file, 0o644);
        [&link, &file, &missing].into_iter().for_each(|path| restore_private_mode(path));
        assert_eq!((mode(&target), mode(&file)), (0o755, 0o644));
        assert!(!missing.exists());
    }

    #[test]
    fn another_users_directory_keeps_its_mode() {
        let scratch = tempfile::tempdir().unwrap();
        set_mode(scratch.path(), 0o755);
        // Root's, if this is not root.
        let (directory, expected) = match geteuid().is_root() {
            true => {
                let other = (Some(Uid::from_raw(1)), Some(Gid::from_raw(1)));
                chown(scratch.path(), other.0, other.1).unwrap();
                (scratch.path(), 0o755)
            }
            false => (Path::new("/"), mode(Path::new("/"))),
        };
        restore_private_mode(directory);
        assert_eq!(mode(directory), expected);
    }
}
