//! A cargo home with a project's own downloads and the user's settings.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

/// Settings, in both spellings.
const CONFIG: [&str; 2] = ["config.toml", "config"];
/// Tokens, in both spellings, and installed subcommands.
const OTHERS: [&str; 3] = ["credentials.toml", "credentials", "bin"];

/// Creates nested directories below `from` and opens the last one, without following links. Errors: one
/// exists and is no directory, or cannot be created.
pub(crate) fn make(from: &Path, names: &[&str]) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut directory = openat(AT_FDCWD, from, flags, Mode::empty())?;
    for name in names {
        match mkdirat(&directory, *name, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
        directory = openat(&directory, *name, flags, Mode::empty())?;
    }
    Ok(directory)
}

/// Links the user's settings into a cargo home. Confinement does not cover a link's target, so tools can
/// only read them. Errors: a link cannot be created.
pub(crate) fn link_settings(home: &OwnedFd, users: &Path, workspace: &Path) -> nix::Result<()> {
    // From a directory below the home, cargo finds these itself and would merge their lists twice.
    let is_found = users.parent().is_some_and(|parent| workspace.starts_with(parent));
    for name in CONFIG {
        match is_found {
            true => unlink(home, name)?,
            false => link(home, name, &users.join(name))?,
        }
    }
    OTHERS.iter().try_for_each(|name| link(home, name, &users.join(name)))
}

fn link(home: &OwnedFd, name: &str, target: &Path) -> nix::Result<()> {
    if readlinkat(home.as_fd(), name).is_ok_and(|found| found == target.as_os_str()) {
        return Ok(());
    }
    unlink(home, name)?;
    match symlinkat(target, home.as_fd(), name) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a link; other files stay.
fn unlink(home: &OwnedFd, name: &str) -> nix::Result<()> {
    if readlinkat(home.as_fd(), name).is_err() {
        return Ok(());
    }
    match unlinkat(home.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}
