//! Process attributes that the tool inherits from the shim (`spec/exec3.md#invocation`).

use aifo_types::{Inherited, SoftLimit, Stdio, TerminalSettings};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use aifo_process::{SignalSet, current_limits, kernel, nice, terminal};

/// Returns what the tool inherits, without descriptors.
pub(crate) fn attributes(environment: Vec<Vec<u8>>, ignored: SignalSet) -> Inherited {
    let limits = current_limits().into_iter();
    Inherited {
        environment,
        umask: Some(kernel::umask()),
        nice: Some(nice()),
        limits: limits.map(|it| SoftLimit { resource: it.resource, soft: it.soft }).collect(),
        ignored: ignored.bits(),
        stdio: [Stdio::Null; 3],
        terminal: None,
    }
}

/// Returns the current directory as the tool's PWD will name it: the first `PWD` of the environment
/// if that names the current directory (`pwd -L`).
pub(crate) fn directory(cwd: &[u8], environment: &[&[u8]]) -> Vec<u8> {
    let pwd = environment.iter().find_map(|variable| variable.strip_prefix(b"PWD="));
    let pwd = pwd.filter(|pwd| path(pwd) != path(cwd) && is_plain(path(pwd)));
    let chosen = pwd.filter(|pwd| is_same_directory(pwd, cwd));
    chosen.unwrap_or(cwd).to_vec()
}

pub(crate) fn describe_terminal(fd: BorrowedFd<'_>) -> TerminalSettings {
    // A hung-up terminal has neither size nor modes.
    let size = terminal::window_size(fd).unwrap_or_default();
    let modes = terminal::modes(fd).unwrap_or_default();
    TerminalSettings { size, modes }
}

/// Returns whether a path is absolute and free of `..`, as `PWD` must be.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn is_same_directory(a: &[u8], b: &[u8]) -> bool {
    let (Ok(a), Ok(b)) = (kernel::stat(a), kernel::stat(b)) else { return false };
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn pwd_is_kept_if_it_names_the_current_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path();
        std::fs::create_dir_all(base.join("real/inner")).unwrap();
        let _ = std::os::unix::fs::symlink("real", base.join("link"));
        let bytes = |path: PathBuf| path.into_os_string().into_vec();
        let real = bytes(base.join("real/inner").canonicalize().unwrap());
        let chosen = |pwd: &[u8]| {
            let variable = [b"PWD=", pwd].concat();
            directory(&real, &[b"OLDPWD=/", &variable, b"PWD=/"])
        };

        let link = bytes(base.join("link/inner"));
        assert_eq!(chosen(&link), link);
        let dotted = bytes(base.join("link/../link/inner"));
        for other in [&dotted, &bytes(base.to_owned()), &b"inner"[..], b"/nonexistent", b""] {
            assert_eq!(chosen(other), real, "{}", other.escape_ascii());
        }
        assert_eq!(directory(&real, &[b"PWDX=/"]), real);
    }

    #[test]
    fn attributes_of_the_current_process() {
        let ignored = SignalSet::from_bits(1 << 12);
        let inherited = attributes(Vec::new(), ignored);
        assert_eq!((inherited.ignored, inherited.limits.len()), (1 << 12, 16));
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let shown = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap().trim();
        let shown = u16::from_str_radix(shown, 8).unwrap();
        assert_eq!(inherited.umask, Some(shown & 0o777));
    }
}
