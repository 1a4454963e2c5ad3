//! A home of cargo's in which a project has its own downloads, and the user's settings.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

/// Settings, in either spelling.
const CONFIG: [&str; 2] = ["config.toml", "config"];
/// Tokens, in either spelling, and installed subcommands.
const OTHERS: [&str; 3] = ["credentials.toml", "credentials", "bin"];

/// Makes the directories of these names, one in the other, and opens the last one. No link is followed
/// below `from`. Errors: one of them is there and is no directory, or cannot be made.
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

/// Links the user's settings into a home of cargo's. Rules of confinement cover no link's target, so
/// tools read them and write none. Errors: a link cannot be made.
pub(crate) fn link_settings(home: &OwnedFd, users: &Path, workspace: &Path) -> nix::Result<()> {
    // Cargo finds these by itself from a directory below the home, and would join their lists twice.
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

/// Removes a link, and nothing else.
fn unlink(home: &OwnedFd, name: &str) -> nix::Result<()> {
    if readlinkat(home.as_fd(), name).is_err() {
        return Ok(());
    }
    match unlinkat(home.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}
