//! Limits, children, capabilities, memory and start data of this process.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

/// Our limit on a resource as it was in force; afterwards it is `new`.
pub(crate) fn prlimit(resource: u8, new: Option<&libc::rlimit>) -> nix::Result<libc::rlimit> {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or points to a live value, and so does `before`; the kernel knows
    // which numbers are resources.
    let result = unsafe { libc::prlimit(0, resource.into(), new, &raw mut before) };
    Errno::result(result).map(|_| before)
}

/// Our nice value.
pub(crate) fn nice() -> c_int {
    // SAFETY: a question without pointers; about ourselves it cannot fail.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Waits for any child that has ended or stopped, without blocking.
pub(crate) fn wait4_any() -> nix::Result<Option<(Pid, c_int, libc::rusage)>> {
    let flags = libc::WNOHANG | libc::WUNTRACED;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live values of the right type; an all-zero rusage is valid.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &raw mut status, flags, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    let pid = Errno::result(pid)?;
    Ok((pid > 0).then(|| (Pid::from_raw(pid), status, usage)))
}

/// The version of this kernel's Landlock; 0 where it has none, or has it switched off.
pub fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: result for its version, the call reads no memory.
    let version = unsafe {
        let none = ptr::null::<c_void>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Gives up every capability for good: this process has none from now on, and neither has what it
/// executes, root's programs included. Errors: it may not, for lack of `CAP_SETPCAP`.
pub fn drop_capabilities() -> nix::Result<()> {
    /// The kernel's `struct __user_cap_header_struct`, of the version with two words for each set.
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    const WORDS_OF_TWO: u32 = 0x2008_0522;
    let header = Header { version: WORDS_OF_TWO, pid: 0 };
    let none = [[0u32; 3]; 2];
    // As many as this kernel knows: it refuses the first that it does not.
    for number in 0..libc::c_ulong::from(u64::BITS) {
        // SAFETY: calls on integers, about ourselves.
        let dropped = unsafe {
            if libc::prctl(libc::PR_CAPBSET_READ, number) < 0 {
                break;
            }
            libc::prctl(libc::PR_CAPBSET_DROP, number)
        };
        Errno::result(dropped)?;
    }
    // SAFETY: both pointers are to live values of the kernel's own shape, and it only reads them. With
    // nothing permitted the kernel empties the ambient set itself.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    Errno::result(set).map(drop)
}

/// Has the C library give memory back to the system as soon as it is freed in any size worth it.
/// By default it keeps what it once had, for a program that will need it again; a resident one is
/// idle most of its life.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const THRESHOLD_BYTES: c_int = 64 * 1024;
        // SAFETY: sets two numbers of the allocator; it refuses what it does not know.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, THRESHOLD_BYTES);
        }
    }
}

/// Random bits from the kernel, fit for a secret.
pub fn random_bits() -> io::Result<[u8; 16]> {
    let mut bits = [0u8; 16];
    // SAFETY: the pointer and length are those of a live array. Up to 256 bytes are never cut
    // short once the kernel's pool is ready.
    let read = unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), 0) };
    if read != bits.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(bits)
}

/// The environment as it was given to this process, each `NAME=value`, without copying it.
///
/// Nothing in this workspace changes its own environment; a program that does must not call this
/// afterwards.
pub fn environment() -> Vec<&'static [u8]> {
    // SAFETY: `environ` is what POSIX says it is, and the C library has it.
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut variables = Vec::with_capacity(64);
    // SAFETY: the C library keeps `environ` pointing to a null-terminated array of NUL-terminated
    // strings, which live as long as the process and which nobody changes.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            variables.push(CStr::from_ptr(*next).to_bytes());
            next = next.add(1);
        }
    }
    variables
}

/// The path that the kernel executed to start this process, links in it included (`AT_EXECFN`): where a
/// program stands, whatever its caller names it. It asks nobody.
pub fn executed_path() -> Option<&'static Path> {
    // SAFETY: getauxval only looks into the vector that the kernel put on our stack.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    if path.is_null() {
        return None;
    }
    // SAFETY: the kernel put a NUL-terminated string there, which lives as long as the process and which
    // nobody changes.
    let path = unsafe { CStr::from_ptr(path) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}
