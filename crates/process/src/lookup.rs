//! Finding a program in PATH.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The first executable regular file of that name.
    Found(PathBuf),
    /// Only files of that name that are not executable; the first of them.
    NotExecutable(PathBuf),
    /// No file of that name.
    Absent,
}

/// Searches the directories of `path`, in the syntax of PATH, for `name`. Relative and empty
/// entries are ignored: a tool is never taken from the current directory.
pub fn find_in_path(name: &OsStr, path: &OsStr) -> Lookup {
    let mut found = Lookup::Absent;
    for directory in path.as_bytes().split(|byte| *byte == b':') {
        let file = Path::new(OsStr::from_bytes(directory)).join(name);
        if !file.is_absolute() || !file.is_file() {
            continue;
        }
        if is_executable(&file) {
            return Lookup::Found(file);
        }
        if found == Lookup::Absent {
            found = Lookup::NotExecutable(file);
        }
    }
    found
}

/// Returns whether a path is a regular file that this process may execute. Links are followed.
pub fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_files_in_absolute_directories_come_first() {
        let find = |name: &str, path: &str| find_in_path(OsStr::new(name), OsStr::new(path));
        assert_eq!(find("sh", "/nonexistent:/bin:/usr/bin"), Lookup::Found("/bin/sh".into()));
        let passwd = Lookup::NotExecutable("/etc/passwd".into());
        assert_eq!(find("passwd", "/etc:/nonexistent"), passwd);
        assert!(matches!(find("passwd", "/etc:/usr/bin"), Lookup::Found(_)));
        assert_eq!(find("bin", "/usr:/"), Lookup::Absent, "a directory");
        assert_eq!(find("sh", ""), Lookup::Absent);
        assert_eq!(find("Cargo.toml", "."), Lookup::Absent);
    }

    #[test]
    fn executable_files() {
        for (path, expected) in [
            ("/bin/sh", true),
            ("/etc/passwd", false),
            ("/bin", false),
            ("/dev/null", false),
            ("/nonexistent", false),
        ] {
            assert_eq!(is_executable(Path::new(path)), expected, "{path}");
        }
    }
}
