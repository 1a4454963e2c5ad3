//! System calls without the C library's `errno`.
//!
//! `errno` belongs to a thread. A child that shares its parent's memory also shares the variable,
//! so its system calls must not touch it.

use std::ffi::c_long;

use nix::errno::Errno;

/// True if [`syscall`] leaves `errno` alone. On other architectures it uses the C library.
pub(super) const LEAVES_ERRNO_ALONE: bool =
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Makes a system call with up to five arguments; the kernel ignores those that it does not use.
///
/// # Safety
///
/// As for the system call itself: pointers must be valid for what the kernel reads and writes.
#[inline(always)]
pub(super) unsafe fn syscall(number: c_long, args: [usize; 5]) -> Result<usize, Errno> {
    // SAFETY: passed on to the caller.
    let result = unsafe { enter_kernel(number, args) };
    // The kernel returns -4095 to -1 for errors.
    match i32::try_from(result) {
        Ok(code @ -4095..=-1) => Err(Errno::from_raw(-code)),
        _ => Ok(result.cast_unsigned()),
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
// SAFETY: the caller's part is that of `syscall`.
unsafe fn enter_kernel(number: c_long, args: [usize; 5]) -> isize {
    let [a, b, c, d, e] = args;
    let result: isize;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; the stack is not used.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
// SAFETY: the caller's part is that of `syscall`.
unsafe fn enter_kernel(number: c_long, args: [usize; 5]) -> isize {
    let [a, b, c, d, e] = args;
    let result: isize;
    // SAFETY: the kernel preserves all registers but x0; the stack is not used.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            options(nostack),
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
// SAFETY: the caller's part is that of `syscall`.
unsafe fn enter_kernel(number: c_long, args: [usize; 5]) -> isize {
    let [a, b, c, d, e] = args;
    // SAFETY: passed on to the caller.
    match unsafe { libc::syscall(number, a, b, c, d, e) } {
        -1 => -(Errno::last_raw() as isize),
        result => result as isize,
    }
}
