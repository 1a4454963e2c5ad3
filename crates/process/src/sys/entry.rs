//! The start of a `#![no_main]` program.

/// Defines the start of a `#![no_main]` program: `entry!(run)`, with `fn run() -> !`.
///
/// The standard library's own start ignores SIGPIPE, opens /dev/null where a standard fd is closed,
/// and reads the map of our memory to tell an overflow of the stack from other faults. Without it
/// the program sees what its parent really gave it, and starts sooner. Arguments, environment and
/// panics are as ever; a panic that reaches the start ends the program with 101. The C library
/// gives arguments to the standard library only if it is the GNU one.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        // SAFETY: nothing else of a program without `main` has this name, which the C library
        // calls with the signature it has here, once.
        #[unsafe(no_mangle)]
        extern "C" fn main(
            _count: ::core::ffi::c_int,
            _arguments: *const *const ::core::ffi::c_char,
        ) -> ::core::ffi::c_int {
            $crate::start($run)
        }
    };
}
