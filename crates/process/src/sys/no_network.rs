//! Takes the network from a process before it executes a program.

use nix::errno::Errno;

use super::raw;
use crate::syscall_filter;

/// Returns the filter, which lives as long as the process. Errors: ENOSYS if this processor's architecture
/// has no table.
pub(crate) fn filter() -> Result<libc::sock_fprog, Errno> {
    let program = syscall_filter::no_network().ok_or(Errno::ENOSYS)?;
    let length = u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
    // The kernel only reads the instructions, though the field's type is a mutable pointer.
    Ok(libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() })
}

/// Installs the filter in this process. Makes system calls only, without `errno`: a child that shares its
/// parent's memory calls it.
pub(crate) fn enter(filter: &libc::sock_fprog) -> Result<(), Errno> {
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    let filter = std::ptr::from_ref(filter) as usize;
    let drop = [libc::PR_CAPBSET_DROP as usize, CAP_NET_ADMIN, 0, 0, 0];
    // SAFETY: system calls on integers, and on a filter that refers to instructions that live as long as
    // the process.
    unsafe {
        // It fails without CAP_SETPCAP: then there is no CAP_NET_ADMIN to gain either.
        let _ = raw::syscall(libc::SYS_prctl, drop);
        raw::syscall(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0])?;
        raw::syscall(libc::SYS_seccomp, [mode as usize, flags as usize, filter, 0, 0])?;
    }
    Ok(())
}

/// The capability to change interfaces and routes, which root gains when it executes a program.
const CAP_NET_ADMIN: usize = 12;
