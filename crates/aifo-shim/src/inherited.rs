//! Process attributes that the tool inherits from the shim (`spec/exec3.md#invocation`).

use aifo_types::{Inherited, SoftLimit, Stdio, TerminalSettings};
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use aifo_policy::Forwarding;
use aifo_process::{SignalSet, current_limits, nice, terminal};

use nix::sys::stat::{Mode, umask};

/// Returns what the tool inherits, without descriptors.
pub(crate) fn attributes(environment: Vec<Vec<u8>>, ignored: SignalSet) -> Inherited {
    let limits = current_limits().into_iter();
    Inherited {
        environment,
        umask: Some(current_umask()),
        nice: Some(nice()),
        limits: limits.map(|it| SoftLimit { resource: it.resource, soft: it.soft }).collect(),
        ignored: ignored.bits(),
        stdio: [Stdio::Null; 3],
        terminal: None,
    }
}

/// Returns the current directory as the tool's PWD will name it.
pub(crate) fn directory(cwd: &Path) -> Vec<u8> {
    logical_directory(cwd, std::env::var_os("PWD"))
}

/// Returns the variables to forward. The proxy filters them again.
pub(crate) fn environment(forwarding: &Forwarding, workspace: &[PathBuf]) -> Vec<Vec<u8>> {
    forwarding.filter(aifo_process::environment(), workspace)
}

pub(crate) fn describe_terminal(fd: BorrowedFd<'_>) -> TerminalSettings {
    // A hung-up terminal has neither size nor modes.
    let size = terminal::window_size(fd).unwrap_or_default();
    let modes = terminal::modes(fd).unwrap_or_default();
    TerminalSettings { size, modes }
}

/// Returns the logical directory (`pwd -L`): `PWD` if it names the current directory.
fn logical_directory(cwd: &Path, pwd: Option<OsString>) -> Vec<u8> {
    let pwd = pwd.map(PathBuf::from).filter(|pwd| pwd != cwd && is_plain(pwd));
    let chosen = pwd.filter(|pwd| is_same_directory(pwd, cwd));
    chosen.unwrap_or_else(|| cwd.to_owned()).into_os_string().into_vec()
}

/// Returns whether a path is absolute and free of `..`, as `PWD` must be.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

fn is_same_directory(a: &Path, b: &Path) -> bool {
    let (Ok(a), Ok(b)) = (a.metadata(), b.metadata()) else { return false };
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Returns the umask. It can only be read by setting it; the process has one thread.
fn current_umask() -> u16 {
    let mask = umask(Mode::empty());
    umask(mask);
    u16::try_from(mask.bits() & 0o777).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pwd_is_kept_if_it_names_the_current_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        std::fs::create_dir_all(directory.join("real/inner")).unwrap();
        let _ = std::os::unix::fs::symlink("real", directory.join("link"));
        let real = directory.join("real/inner").canonicalize().unwrap();
        let text = |path: &Path| path.as_os_str().to_owned();
        let chosen = |pwd: Option<OsString>| {
            PathBuf::from(OsString::from_vec(logical_directory(&real, pwd)))
        };

        let link = directory.join("link/inner");
        assert_eq!(chosen(Some(text(&link))), link);
        let dotted = directory.join("link/../link/inner");
        for other in [text(&dotted), text(directory), "inner".into(), "/nonexistent".into()] {
            assert_eq!(chosen(Some(other.clone())), real, "{other:?}");
        }
        assert_eq!(chosen(None), real);
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
