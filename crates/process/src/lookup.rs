//! Finding a program by its name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// What a search for a program found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The first executable regular file of that name.
    Found(PathBuf),
    /// Only a file that may not be executed.
    NotExecutable(PathBuf),
    /// Nothing of that name.
    Absent,
}

/// Looks for `name` in the directories of `path`, which has the form of the PATH variable. Relative
/// and empty entries are passed over: a tool is never taken from the directory it was called in.
pub fn find_in_path(name: &str, path: &OsStr) -> Lookup {
    let mut found = Lookup::Absent;
    for directory in path.as_bytes().split(|byte| *byte == b':') {
        let file = Path::new(OsStr::from_bytes(directory)).join(name);
        if !file.is_absolute() || !file.is_file() {
            continue;
        }
        if access(&file, AccessFlags::X_OK).is_ok() {
            return Lookup::Found(file);
        }
        if found == Lookup::Absent {
            found = Lookup::NotExecutable(file);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_files_in_absolute_directories_come_first() {
        let find = |name: &str, path: &str| find_in_path(name, OsStr::new(path));
        assert_eq!(find("sh", "/nonexistent:/bin:/usr/bin"), Lookup::Found("/bin/sh".into()));
        let passwd = Lookup::NotExecutable("/etc/passwd".into());
        assert_eq!(find("passwd", "/etc:/nonexistent"), passwd);
        assert!(matches!(find("passwd", "/etc:/usr/bin"), Lookup::Found(_)));
        assert_eq!(find("bin", "/usr:/"), Lookup::Absent, "a directory");
        assert_eq!(find("sh", ""), Lookup::Absent);
        assert_eq!(find("Cargo.toml", "."), Lookup::Absent);
    }
}
