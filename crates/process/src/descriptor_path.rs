//! Paths of open files.

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use aifo_types::FileId;
use nix::sys::stat::fstat;

/// Returns a path that leads to the open file itself, whatever became of its name. It is valid in
/// this process, and in a child that has inherited the descriptor.
pub fn descriptor_path(fd: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// Returns the current path of an open file, without links. The kernel appends ` (deleted)` if the
/// name was removed.
pub fn current_path(fd: &impl AsFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(descriptor_path(fd))
}

/// Returns the device and inode number of an open file.
pub fn file_id(fd: &impl AsFd) -> nix::Result<FileId> {
    fstat(fd).map(|stat| FileId { device: stat.st_dev, inode: stat.st_ino })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn a_renamed_file_is_still_reached() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path().canonicalize().unwrap();
        let [before, after] = ["before", "after"].map(|name| base.join(name));
        fs::write(&before, "text").unwrap();
        let file = File::open(&before).unwrap();
        fs::rename(&before, &after).unwrap();
        assert_eq!(fs::read_to_string(descriptor_path(&file)).unwrap(), "text");
        assert_eq!(current_path(&file).unwrap(), after);
        fs::remove_file(&after).unwrap();
        assert_eq!(fs::read_to_string(descriptor_path(&file)).unwrap(), "text");
        assert_eq!(current_path(&file).unwrap(), base.join("after (deleted)"));
    }
}
