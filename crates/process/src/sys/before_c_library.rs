//! The first steps of a program whose entry is its own ([`crate::entry`]).

use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering;

use super::arena::HAS_C_LIBRARY;
use crate::initial_stack::{InitialStack, MAX_BYTES, MAX_STRINGS, parse_stack};

/// Calls `first` with the initial stack, unless it is unusual or too large.
///
/// # Safety
///
/// `stack` must be the initial stack pointer of the process.
#[doc(hidden)]
pub unsafe fn before_c_library(stack: *const usize, first: fn(&InitialStack)) {
    // SAFETY: the entry passes the initial stack pointer. The kernel has put the words there that
    // `parse_stack` reads, up to the end of the auxiliary vector, and nothing has changed them.
    let word = |index| Some(unsafe { *stack.add(index) });
    let Some(layout) = parse_stack(word, MAX_STRINGS) else { return };
    let mut size = 0;
    let mut strings = |first: usize, count| {
        let mut strings = Vec::with_capacity(count);
        for index in first..first.saturating_add(count) {
            // SAFETY: the layout's words are pointers to NUL-terminated strings, which live as long
            // as the process and are never modified.
            let string = unsafe { CStr::from_ptr(*stack.add(index) as *const c_char) };
            size += string.count_bytes() + 1;
            if size > MAX_BYTES {
                return None;
            }
            strings.push(string.to_bytes());
        }
        Some(strings)
    };
    let args = strings(1, layout.argument_count);
    let environment = strings(layout.environment, layout.variable_count);
    let (Some(args), Some(environment)) = (args, environment) else { return };
    // SAFETY: as for the other strings.
    let path = unsafe { CStr::from_ptr(layout.executed_path as *const c_char) };
    first(&InitialStack { args, environment, executed_path: path.to_bytes() });
}

/// Records that the C library has started, so that its allocator can be used.
pub(crate) fn c_library_has_started() {
    HAS_C_LIBRARY.store(true, Ordering::Relaxed);
}
