//! The start of a `#![no_main]` program.

/// Defines the start of a `#![no_main]` program: `entry!(run)`, with `fn run() -> !`.
///
/// The standard library's start ignores SIGPIPE, opens /dev/null for closed standard descriptors,
/// and reads `/proc/self/maps` to recognize stack overflows. Without it the program sees the
/// inherited state and starts sooner. Arguments, environment and panics work as usual; a panic that
/// reaches the start exits with 101. Only with the GNU C library does the standard library receive
/// the arguments.
///
/// `entry!(run, first)` also defines `aifo_entry`, which a build script makes the entry of the ELF
/// file (`spec/shim.md#early-start`). It calls `first` with the [`InitialStack`](crate::InitialStack) before the C
/// library starts. When `first` returns, the C library starts as usual and calls `run`. The macro
/// also sets the global allocator, which serves `first` from a fixed arena, and in a static program
/// it replaces the C library's functions for memory, which that relocates at its start.
///
/// `first` must not panic, and must use nothing that needs thread-local storage or the C library:
/// only [`crate::kernel`], the functions of this crate that are based on it, and computation.
/// A static program at a variable address, whose own addresses are not final at the entry, skips
/// `first`. So do programs for other systems than x86_64 Linux with glibc.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        // SAFETY: a program without `main` has no other symbol of this name; the C library calls it
        // once, with this signature.
        #[unsafe(no_mangle)]
        extern "C" fn main(
            _count: ::core::ffi::c_int,
            _arguments: *const *const ::core::ffi::c_char,
        ) -> ::core::ffi::c_int {
            $crate::start($run)
        }
    };
    ($run:path, $first:path) => {
        $crate::entry!($run);

        #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
        const _: () = {
            #[global_allocator]
            static ALLOCATOR: $crate::Arena = $crate::Arena;

            // SAFETY: no other symbol has this name; only the entry below calls it, with the
            // initial stack pointer.
            #[unsafe(no_mangle)]
            extern "C" fn aifo_before_c_library(stack: *const usize) {
                // SAFETY: the entry passes the initial stack pointer.
                unsafe { $crate::before_c_library(stack, $first) };
            }
        };

        // Elsewhere `first` is checked, and is not dead code.
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
        const _: fn(&$crate::InitialStack) = $first;

        // At the entry the stack is aligned to 16 bytes and rdx holds a function for `atexit`.
        // A file of type ET_EXEC (2) has its final addresses. Any other has them only if the
        // kernel started a loader: then AT_BASE (7) is not 0.
        #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
        ::core::arch::global_asm!(
            ".globl aifo_entry",
            ".type aifo_entry, @function",
            "aifo_entry:",
            ".cfi_startproc",
            ".cfi_undefined rip",
            "xor ebp, ebp",
            "lea rax, [rip + __ehdr_start]",
            "cmp word ptr [rax + 16], 2",
            "je 4f",
            "mov rcx, [rsp]",
            "lea rcx, [rsp + 8 * rcx + 16]",
            "9:",
            "mov rax, [rcx]",
            "add rcx, 8",
            "test rax, rax",
            "jne 9b",
            "2:",
            "mov rax, [rcx]",
            "test rax, rax",
            "je 5f",
            "cmp rax, 7",
            "je 3f",
            "add rcx, 16",
            "jmp 2b",
            "3:",
            "cmp qword ptr [rcx + 8], 0",
            "je 5f",
            "4:",
            "mov rdi, rsp",
            "push rdx",
            "push rdx",
            "call aifo_before_c_library",
            "pop rdx",
            "pop rdx",
            "5:",
            "jmp _start",
            ".cfi_endproc",
            ".size aifo_entry, . - aifo_entry",
        );

        #[cfg(all(
            target_arch = "x86_64",
            target_os = "linux",
            target_env = "gnu",
            target_feature = "crt-static"
        ))]
        $crate::memory_functions!("");
    };
}

/// Defines `aifo_entry` as the usual start, for a test program that is linked like the program.
#[macro_export]
macro_rules! usual_entry {
    () => {
        #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
        ::core::arch::global_asm!(".globl aifo_entry", "aifo_entry:", "jmp _start");
    };
}
