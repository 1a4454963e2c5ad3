//! All that the tool is to inherit of us (`spec/exec3.md#invocation`).

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use aifo_policy::Forwarding;
use aifo_process::{SignalSet, current_limits, nice, terminal};
use aifo_wire::{Invocation, SoftLimit, Stdio, TerminalSettings};
use nix::sys::stat::{Mode, umask};

/// The call of `argv` in `cwd`, with everything that does not depend on its descriptors.
pub(crate) fn invocation(
    argv: Vec<Vec<u8>>,
    cwd: &Path,
    environment: Vec<Vec<u8>>,
    ignored: SignalSet,
) -> Invocation {
    let limits = current_limits().into_iter();
    Invocation {
        argv,
        cwd: Some(directory(cwd, std::env::var_os("PWD"))),
        environment,
        umask: Some(mask()),
        nice: Some(nice()),
        limits: limits.map(|it| SoftLimit { resource: it.resource, soft: it.soft }).collect(),
        ignored: ignored.bits(),
        stdio: [Stdio::Null; 3],
        terminal: None,
    }
}

/// The variables that may go along; the proxy judges once more.
pub(crate) fn environment(forwarding: &Forwarding, workspace: &Path) -> Vec<Vec<u8>> {
    forwarding.filter(aifo_process::environment(), workspace)
}

/// The terminal that the tool's is to resemble.
pub(crate) fn describe(fd: BorrowedFd<'_>) -> TerminalSettings {
    // One that was hung up just now has neither size nor modes.
    let size = terminal::window_size(fd).unwrap_or_default();
    let modes = terminal::modes(fd).unwrap_or_default();
    TerminalSettings { size, modes }
}

/// Where we are, by the way our parent came here if that is known: a path of links stays one.
fn directory(cwd: &Path, pwd: Option<OsString>) -> Vec<u8> {
    let pwd = pwd.map(PathBuf::from).filter(|pwd| pwd != cwd && is_plain(pwd));
    let chosen = pwd.filter(|pwd| is_same_directory(pwd, cwd));
    chosen.unwrap_or_else(|| cwd.to_owned()).into_os_string().into_vec()
}

/// Whether a path is absolute and without dots, as `PWD` has to be.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

fn is_same_directory(a: &Path, b: &Path) -> bool {
    let (Ok(a), Ok(b)) = (a.metadata(), b.metadata()) else { return false };
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// The file mode creation mask, which can only be read by setting it: nobody else runs here.
fn mask() -> u16 {
    let mask = umask(Mode::empty());
    umask(mask);
    u16::try_from(mask.bits() & 0o777).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_links_is_kept_if_it_leads_here() {
        let folder = std::env::temp_dir().join(format!("aifo-shim-pwd-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("real/inner")).unwrap();
        let _ = std::os::unix::fs::symlink("real", folder.join("link"));
        let real = folder.join("real/inner").canonicalize().unwrap();
        let text = |path: &Path| path.as_os_str().to_owned();
        let chosen =
            |pwd: Option<OsString>| PathBuf::from(OsString::from_vec(directory(&real, pwd)));

        let link = folder.join("link/inner");
        assert_eq!(chosen(Some(text(&link))), link);
        let dotted = folder.join("link/../link/inner");
        for other in [text(&dotted), text(&folder), "inner".into(), "/nonexistent".into()] {
            assert_eq!(chosen(Some(other.clone())), real, "{other:?}");
        }
        assert_eq!(chosen(None), real);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_this_very_process_has() {
        let ignored = SignalSet::from_bits(1 << 12);
        let cwd = std::env::current_dir().unwrap();
        let invocation = invocation(vec![b"make".to_vec()], &cwd, Vec::new(), ignored);
        assert_eq!((invocation.ignored, invocation.limits.len()), (1 << 12, 16));
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let shown = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap().trim();
        let shown = u16::from_str_radix(shown, 8).unwrap();
        assert_eq!(invocation.umask, Some(shown & 0o777));
    }
}
