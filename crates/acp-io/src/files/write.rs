//! Writes a text file atomically.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use aifo_acp::RpcError;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::limits::FileLimits;
use crate::rpc::{failed, invalid, refused};
use crate::workspace::{Workspace, regular};

/// Writes `content` to `path`, replacing a file or creating it with its missing directories. Checks the
/// path as far as it resolves before anything is created, then the opened directory.
pub(super) fn write(
    workspace: &Workspace,
    path: &str,
    beneath: &Path,
    content: &[u8],
    limits: &FileLimits,
    judge: impl Fn(&Path) -> Result<(), RpcError>,
) -> Result<(), RpcError> {
    if content.len() > limits.write {
        let most = limits.write;
        return Err(invalid(format!("'{path}': no more than {most} bytes are written at once")));
    }
    let (Some(parent), Some(name)) = (beneath.parent(), beneath.file_name()) else {
        return Err(invalid(format!("'{path}' does not name a file")));
    };
    let refuse = |errno| refused(path, errno);
    judge(&workspace.resolve_beneath(beneath).map_err(refuse)?)?;
    let folder = workspace.open_or_make(parent).map_err(refuse)?;
    judge(&workspace.real_path(folder.as_fd()).map_err(refuse)?.join(name))?;
    let before = present(&folder, name).map_err(refuse)?;
    if before.is_some_and(|before| before.st_nlink > 1) {
        return Err(invalid(format!("'{path}' has further names, as a hard link")));
    }
    let fail = |error: io::Error| failed(format!("'{path}' is not written: {error}"));
    let mut draft = Draft::new(&folder, before.as_ref()).map_err(fail)?;
    draft.file.write_all(content).map_err(fail)?;
    if let Some(before) = before {
        draft.resemble(&before).map_err(fail)?;
    }
    draft.become_file(name).map_err(refuse)
}

/// Returns the existing file if it is writable: replacing must not circumvent its mode.
fn present(folder: &OwnedFd, name: &OsStr) -> nix::Result<Option<FileStat>> {
    let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let flags = flags | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::ENOENT) => Ok(None),
        opened => Ok(Some(regular(opened?)?.1)),
    }
}

/// A temporary file beside its target; removed on drop unless renamed.
struct Draft<'a> {
    folder: &'a OwnedFd,
    name: Option<OsString>,
    file: File,
}

impl<'a> Draft<'a> {
    fn new(folder: &'a OwnedFd, before: Option<&FileStat>) -> io::Result<Self> {
        let bits = u128::from_ne_bytes(aifo_process::random_bits()?);
        let name = OsString::from(format!(".aifo-draft-{bits:032x}"));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        // Private from the start, since the target may be.
        let mode = if before.is_some() { 0o600 } else { 0o666 };
        let file = openat(folder, name.as_os_str(), flags, Mode::from_bits_truncate(mode))?;
        Ok(Draft { folder, name: Some(name), file: File::from(file) })
    }

    /// Takes owner, group and permissions of the file that it replaces.
    fn resemble(&self, before: &FileStat) -> io::Result<()> {
        let made = self.file.metadata()?;
        if (made.uid(), made.gid()) != (before.st_uid, before.st_gid) {
            fchown(&self.file, Some(before.st_uid), Some(before.st_gid))?;
        }
        // Drops set-user-ID, as the kernel does on a write.
        self.file.set_permissions(Permissions::from_mode(before.st_mode & 0o777))
    }

    /// Takes the place of whatever has the name by now, which is not followed.
    fn become_file(mut self, name: &OsStr) -> nix::Result<()> {
        let draft = self.name.as_deref().unwrap_or_default();
        renameat(self.folder, draft, self.folder, name)?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Another process may have created it first.
            let _ = unlinkat(self.folder, name.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}
