//! The start of a `#![no_main]` program.

/// Defines the start of a `#![no_main]` program: `entry!(run)`, with `fn run() -> !`.
///
/// The standard library's start ignores SIGPIPE, opens /dev/null for closed standard descriptors,
/// and reads `/proc/self/maps` to recognize stack overflows. Without it the program sees the
/// inherited state and starts sooner. Arguments, environment and panics work as usual; a panic that
/// reaches the start exits with 101. Only with the GNU C library does the standard library receive
/// the arguments.
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
}
