//! Finding a program by its name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The first executable regular file called `name` in the directories of `path`, which has the
/// form of the PATH variable. Relative and empty entries are passed over: a tool is never taken
/// from the directory it was called in.
pub fn find_in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|directory| Path::new(OsStr::from_bytes(directory)))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(OsString::from(name)))
        .find(|file| access(file, AccessFlags::X_OK).is_ok() && file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_in_absolute_directories() {
        let find = |name: &str, path: &str| find_in_path(name, OsStr::new(path));
        assert_eq!(find("sh", "/nonexistent:/bin:/usr/bin"), Some("/bin/sh".into()));
        assert_eq!(find("passwd", "/etc"), None, "not executable");
        assert_eq!(find("bin", "/usr:/"), None, "a directory");
        assert_eq!(find("sh", ""), None);
        assert_eq!(find("src", ".:"), None);
    }
}
