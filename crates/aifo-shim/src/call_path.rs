//! The path by which the shim was called (`spec/decide.md#programs-by-path`).

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use aifo_decide::{FileFacts, leads_to_interpreter};

/// Returns the absolute path of the workspace's own interpreter by which this process was called; `None`
/// if the tool was called by its name.
pub(crate) fn program(cwd: &Path, files: &dyn FileFacts) -> Option<PathBuf> {
    let called = called(std::env::args_os().next(), aifo_process::executed_path())?;
    plain(&cwd.join(called), files).filter(|path| leads_to_interpreter(path, files))
}

/// Returns `argv[0]` if that is a path, as of an interpreter that the kernel starts for a script. A
/// shell that found the program in PATH gives its name only; then the kernel has the path.
fn called(first: Option<OsString>, executed: Option<&Path>) -> Option<PathBuf> {
    let first = first.map(PathBuf::from)?;
    if first.components().count() > 1 { Some(first) } else { executed.map(Path::to_owned) }
}

/// Returns an absolute path without `.` and `..`. `..` is resolved in the directory, where a link may
/// come before it; otherwise links stay.
fn plain(path: &Path, files: &dyn FileFacts) -> Option<PathBuf> {
    if path.components().any(|component| component == Component::ParentDir) {
        return Some(files.real_path(path.parent()?)?.join(path.file_name()?));
    }
    Some(path.components().collect())
}

/// Returns whether the shim is mounted in the place of this interpreter. A link to the shim is none: it
/// was configured, and is reported when it runs.
pub(crate) fn is_covered(path: &Path) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    let (Ok(file), Ok(own)) = (real.metadata(), Path::new("/proc/self/exe").metadata()) else {
        return false;
    };
    real.file_name() != Some("aifo-shim".as_ref())
        && (file.dev(), file.ino()) == (own.dev(), own.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_argv_0_or_the_kernels() {
        let rows = [
            ("/ws/.venv/bin/python", "/ws/.venv/bin/pip", "/ws/.venv/bin/python"),
            (".venv/bin/python", ".venv/bin/python", ".venv/bin/python"),
            ("./python", "./python", "./python"),
            ("python", "/ws/.venv/bin/python", "/ws/.venv/bin/python"),
        ];
        for (first, executed, expected) in rows {
            let found = called(Some(first.into()), Some(Path::new(executed)));
            assert_eq!(found.as_deref(), Some(Path::new(expected)), "{first} {executed}");
        }
        assert_eq!(called(Some("python".into()), None), None);
        assert_eq!(called(None, Some(Path::new("/bin/python"))), None);
    }

    #[test]
    fn the_running_program_is_recognised() {
        assert!(is_covered(&std::env::current_exe().unwrap()));
        assert!(!is_covered(Path::new("/etc/passwd")) && !is_covered(Path::new("/nonexistent")));
    }
}
