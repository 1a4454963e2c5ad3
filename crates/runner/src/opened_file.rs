//! Opening a file of the container for the other end of the control connection (`spec/sandbox.md#files`).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_process::{current_path, with_rights_of};
use aifo_wire::FileAccess;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{getpid, mkdir};

use crate::user::User;

/// Opens a file with the rights of a user, without waiting for another process.
pub(crate) fn open_file(
    access: FileAccess,
    user: Option<&[u8]>,
    path: &[u8],
) -> Result<OwnedFd, Errno> {
    let path = Path::new(OsStr::from_bytes(path));
    let Some(user) = user else { return open_path(access, path) };
    // The errors of a name are those of a call.
    let user = User::look_up(user).map_err(|_| Errno::EINVAL)?;
    if !user.is_other() {
        return open_path(access, path);
    }
    let file = with_rights_of(&user.credentials, || open_path(access, path))??;
    // To the kernel this thread still is the runner, whose own entries in /proc are not the user's.
    if user.credentials.uid != 0 && is_own_entry(&file)? {
        return Err(Errno::EACCES);
    }
    Ok(file)
}

fn open_path(access: FileAccess, path: &Path) -> Result<OwnedFd, Errno> {
    let always = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    match access {
        FileAccess::Read => open(path, always | OFlag::O_RDONLY, Mode::empty()),
        FileAccess::Write => {
            let create = || open(path, always | OFlag::O_WRONLY | OFlag::O_CREAT, FILE_MODE);
            match (create(), path.parent()) {
                (Err(Errno::ENOENT), Some(parent)) => {
                    create_directories(parent)?;
                    create()
                }
                (created, _) => created,
            }
        }
    }
}

/// Less the runner mask.
const FILE_MODE: Mode = Mode::from_bits_truncate(0o666);
const DIRECTORY_MODE: Mode = Mode::from_bits_truncate(0o777);

fn create_directories(path: &Path) -> Result<(), Errno> {
    let create = || match mkdir(path, DIRECTORY_MODE) {
        Err(Errno::EEXIST) => Ok(()),
        created => created,
    };
    match (create(), path.parent()) {
        (Err(Errno::ENOENT), Some(parent)) if !parent.as_os_str().is_empty() => {
            create_directories(parent)?;
            create()
        }
        (created, _) => created,
    }
}

/// Returns whether a file is below this process in /proc, wherever that is mounted.
fn is_own_entry(file: &OwnedFd) -> Result<bool, Errno> {
    if fstatfs(file)?.filesystem_type() != PROC_SUPER_MAGIC {
        return Ok(false);
    }
    let own = getpid().to_string();
    let path = current_path(file).map_err(|_| Errno::EACCES)?;
    Ok(path.components().any(|part| part.as_os_str() == own.as_str()))
}
