//! Limits, children, capabilities, memory and environment of this process.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::kernel;

/// Waits for any child that has ended or stopped, without blocking.
pub(crate) fn wait4_any() -> nix::Result<Option<(Pid, c_int, libc::rusage)>> {
    let flags = libc::WNOHANG | libc::WUNTRACED;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers refer to live values of the right type; an all-zero rusage is valid.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &raw mut status, flags, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    let pid = Errno::result(pid)?;
    Ok((pid > 0).then(|| (Pid::from_raw(pid), status, usage)))
}

/// Returns the version of the kernel's Landlock; 0 if it is absent or disabled.
pub fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: when queried for its version, the call reads no memory.
    let version = unsafe {
        let none = ptr::null::<c_void>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// The kernel's `struct __user_cap_header_struct`, version with two words per set.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

impl CapabilityHeader {
    /// Of this thread.
    const OWN: Self = CapabilityHeader { version: 0x2008_0522, pid: 0 };
}

/// Effective, permitted and inheritable capabilities, in two halves.
type Capabilities = [[u32; 3]; 2];

/// Sets the capabilities of this thread. Errors: EPERM for one that is not permitted.
fn set_capabilities(sets: &Capabilities) -> nix::Result<()> {
    let header = CapabilityHeader::OWN;
    // SAFETY: both pointers refer to live values in the kernel's layout, which it only reads.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    Errno::result(set).map(drop)
}

/// The effective capabilities of this thread, suspended until this is dropped.
#[derive(Debug)]
pub(crate) struct SuspendedCapabilities(Capabilities);

/// Suspends the effective capabilities of this thread.
pub(crate) fn suspend_capabilities() -> nix::Result<SuspendedCapabilities> {
    let header = CapabilityHeader::OWN;
    let mut own: Capabilities = Default::default();
    // SAFETY: both pointers refer to live values in the kernel's layout.
    let read = unsafe { libc::syscall(libc::SYS_capget, &raw const header, own.as_mut_ptr()) };
    Errno::result(read)?;
    set_capabilities(&own.map(|[_, permitted, inheritable]| [0, permitted, inheritable]))?;
    Ok(SuspendedCapabilities(own))
}

impl Drop for SuspendedCapabilities {
    fn drop(&mut self) {
        // Cannot fail: all of them are permitted.
        let _ = set_capabilities(&self.0);
    }
}

/// Drops every capability from all sets and the bounding set, so that programs executed later have
/// none either. Errors: EPERM without `CAP_SETPCAP`.
pub fn drop_capabilities() -> nix::Result<()> {
    // PR_CAPBSET_READ fails for the first number that the kernel does not define.
    for number in 0..libc::c_ulong::from(u64::BITS) {
        // SAFETY: system calls on integers.
        let dropped = unsafe {
            if libc::prctl(libc::PR_CAPBSET_READ, number) < 0 {
                break;
            }
            libc::prctl(libc::PR_CAPBSET_DROP, number)
        };
        Errno::result(dropped)?;
    }
    // The kernel empties the ambient set itself when nothing is permitted.
    set_capabilities(&Capabilities::default())
}

/// Sets `no_new_privs` for this process and its descendants, for good.
pub(crate) fn no_new_privileges() -> nix::Result<()> {
    // SAFETY: a system call on integers.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    Errno::result(set).map(drop)
}

/// Adds a seccomp filter to this process, which its descendants inherit.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> nix::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
    // The kernel only reads the instructions, though the field's type is a mutable pointer.
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    // SAFETY: the pointer refers to a live value, which describes a live array of instructions.
    let added = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    Errno::result(added).map(drop)
}

/// Makes the C library return freed blocks of 64 KiB or more to the system at once. By default it
/// keeps them for reuse, but a resident program is idle most of the time.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const THRESHOLD_BYTES: c_int = 64 * 1024;
        // SAFETY: sets two parameters of the allocator, which rejects invalid ones.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, THRESHOLD_BYTES);
        }
    }
}

/// Returns free blocks of all sizes to the system, also between blocks in use. Takes up to a few milliseconds after many
/// allocations; else microseconds.
pub fn give_back_free_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: gives pages back that the allocator does not use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns random bits from the kernel, suitable for secrets.
pub fn random_bits() -> io::Result<[u8; 16]> {
    Ok(kernel::random_bits()?)
}

/// Returns the environment of this process, each variable as `NAME=value`, without copying it.
///
/// Must not be called after the process has changed its environment; no program of this workspace
/// does.
pub fn environment() -> Vec<&'static [u8]> {
    // SAFETY: POSIX defines `environ` with this type, and the C library provides it.
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut variables = Vec::with_capacity(64);
    // SAFETY: `environ` points to a null-terminated array of NUL-terminated strings, which live as
    // long as the process and are never modified.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            variables.push(CStr::from_ptr(*next).to_bytes());
            next = next.add(1);
        }
    }
    variables
}

/// Returns the path that the kernel executed to start this process, before resolving links
/// (`AT_EXECFN`). Unlike `argv[0]` the caller cannot choose it.
pub fn executed_path() -> Option<&'static Path> {
    // SAFETY: getauxval only reads the auxiliary vector.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    if path.is_null() {
        return None;
    }
    // SAFETY: the kernel stored a NUL-terminated string there, which lives as long as the process
    // and is never modified.
    let path = unsafe { CStr::from_ptr(path) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}
