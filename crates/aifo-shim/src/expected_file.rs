//! Files that the engine was to mount into this sidecar (`spec/runner.md#options`).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use aifo_process::descriptor_path;
use nix::fcntl::OFlag;

/// A file that the engine was to mount, or the directory of one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExpectedFile {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) path: PathBuf,
}

impl ExpectedFile {
    pub(crate) fn parse(value: &OsStr) -> Option<Self> {
        let mut parts = value.as_bytes().splitn(3, |byte| *byte == b':');
        let mut number = || str::from_utf8(parts.next()?).ok()?.parse().ok();
        let (device, inode) = (number()?, number()?);
        let path = PathBuf::from(OsStr::from_bytes(parts.next()?));
        path.is_absolute().then_some(ExpectedFile { device, inode, path })
    }

    pub(crate) fn is_there(&self) -> bool {
        let found = self.path.symlink_metadata();
        found.is_ok_and(|it| self.is(&it))
    }

    fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }

    /// Returns whether the null device is at the path, in this very directory, which others may rename.
    pub(crate) fn is_covered(&self) -> bool {
        let is_null = |at: Metadata| at.file_type().is_char_device() && at.rdev() == NULL_DEVICE;
        let (Some(directory), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return false;
        };
        let flags = (OFlag::O_PATH | OFlag::O_DIRECTORY).bits();
        let directory = File::options().read(true).custom_flags(flags).open(directory);
        directory.is_ok_and(|directory| {
            let at = descriptor_path(&directory).join(name).symlink_metadata();
            directory.metadata().is_ok_and(|it| self.is(&it)) && at.is_ok_and(is_null)
        })
    }
}

/// The number of `/dev/null`: major 1, minor 3.
const NULL_DEVICE: u64 = 0x103;
