//! True if an agent container can write in its workspace.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::{
    sys::statvfs::{FsFlags, statvfs},
    unistd::{getgid, getuid},
};

/// The access that the caller has to a workspace without capabilities and further groups, as in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceAccess {
    /// It can read and write, as far as each file's mode allows.
    ReadWrite,
    /// Its file system is read-only.
    ReadOnly,
    /// Its owner is this user, and its mode does not let the caller write.
    Foreign(u32),
}

impl WorkspaceAccess {
    /// Returns the access to an existing directory.
    pub fn to(workspace: &Path) -> Self {
        if statvfs(workspace).is_ok_and(|system| system.flags().contains(FsFlags::ST_RDONLY)) {
            return WorkspaceAccess::ReadOnly;
        }
        // The container would not start in one that cannot be read.
        let Ok(metadata) = workspace.metadata() else { return WorkspaceAccess::ReadWrite };
        let directory = (metadata.uid(), metadata.gid(), metadata.mode());
        WorkspaceAccess::of(directory, (getuid().as_raw(), getgid().as_raw()))
    }

    /// Decides by owner, group and mode of a directory.
    fn of((owner, group, mode): (u32, u32, u32), (uid, gid): (u32, u32)) -> Self {
        let needed = if owner == uid {
            0o300
        } else if group == gid {
            0o030
        } else {
            0o003
        };
        match mode & needed == needed {
            true => WorkspaceAccess::ReadWrite,
            false => WorkspaceAccess::Foreign(owner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_follows_owner_group_and_mode() {
        use WorkspaceAccess::{Foreign, ReadWrite};
        let rows = [
            ((7, 8, 0o700), ReadWrite),
            ((7, 8, 0o500), Foreign(7)),
            ((0, 0, 0o755), Foreign(0)),
            ((0, 8, 0o775), ReadWrite),
            ((0, 8, 0o757), Foreign(0)),
            ((0, 0, 0o777), ReadWrite),
            ((0, 0, 0o776), Foreign(0)),
        ];
        for (directory, expected) in rows {
            assert_eq!(WorkspaceAccess::of(directory, (7, 8)), expected, "{directory:?}");
        }
        assert_eq!(WorkspaceAccess::to(&std::env::temp_dir()), ReadWrite);
        let unwritable = WorkspaceAccess::to(Path::new("/proc/self"));
        assert_eq!(unwritable, Foreign(getuid().as_raw()));
    }
}
