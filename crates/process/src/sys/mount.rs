//! Mounts by descriptor.

use std::ffi::{CStr, c_int, c_uint};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::NixPath;
use nix::errno::Errno;

const EMPTY_PATH: &CStr = c"";

/// Returns a copy of the mounts at an open path and below it, which is mounted nowhere.
pub(crate) fn copy_mounts(at: &impl AsFd) -> nix::Result<OwnedFd> {
    const OPEN_TREE_CLONE: c_uint = 1;
    let recursive = (libc::AT_EMPTY_PATH | libc::AT_RECURSIVE).cast_unsigned();
    let flags = OPEN_TREE_CLONE | recursive | libc::O_CLOEXEC.cast_unsigned();
    let (number, at) = (libc::SYS_open_tree, at.as_fd().as_raw_fd());
    // SAFETY: the pointer is a string, which the kernel only reads.
    let copy = unsafe { libc::syscall(number, at, EMPTY_PATH.as_ptr(), flags) };
    let copy = c_int::try_from(Errno::result(copy)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Mounts copied mounts at an open path.
pub(crate) fn attach_mounts(copy: &impl AsFd, at: &impl AsFd) -> nix::Result<()> {
    // MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH
    const BOTH_EMPTY: c_uint = 0x4 | 0x40;
    let (copy, at) = (copy.as_fd().as_raw_fd(), at.as_fd().as_raw_fd());
    let empty = EMPTY_PATH.as_ptr();
    // SAFETY: both pointers are strings, which the kernel only reads.
    let moved = unsafe { libc::syscall(libc::SYS_move_mount, copy, empty, at, empty, BOTH_EMPTY) };
    Errno::result(moved).map(drop)
}

/// Makes a mount and those below it read-only. Errors: ENOSYS before Linux 5.12.
pub(crate) fn make_read_only(path: &Path) -> nix::Result<()> {
    /// The kernel's `struct mount_attr`.
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let attributes =
        Attributes { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    let (number, size) = (libc::SYS_mount_setattr, size_of::<Attributes>());
    let recursive = libc::AT_RECURSIVE;
    // SAFETY: both pointers refer to live values, which the kernel only reads; the size is that of the
    // second one.
    let set = path.with_nix_path(|path| unsafe {
        let path = path.as_ptr();
        libc::syscall(number, libc::AT_FDCWD, path, recursive, &raw const attributes, size)
    })?;
    Errno::result(set).map(drop)
}
