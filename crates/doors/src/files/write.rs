//! Writing a text, whole or not at all.

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

use super::FileLimits;
use crate::rpc::{failed, invalid, refused};
use crate::workspace::{Workspace, regular};

/// Puts `content` at `path`, in place of the file that is there, or as a new one with the folders
/// that it lacks. The path is judged as far as it leads, before anything is made, then the folder that was
/// opened.
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

/// The file that is there now, if we could write to it: what its mode forbids is not undone by
/// replacing it.
fn present(folder: &OwnedFd, name: &OsStr) -> nix::Result<Option<FileStat>> {
    let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let flags = flags | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::ENOENT) => Ok(None),
        opened => Ok(Some(regular(opened?)?.1)),
    }
}

/// A file beside the one that it is to become. It goes with this, unless it became that.
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
        // What others must not read in the end, they must not read meanwhile.
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
        // As the kernel has it for whoever writes, set-user-ID does not stay.
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
            // Somebody else may have been quicker.
            let _ = unlinkat(self.folder, name.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}
