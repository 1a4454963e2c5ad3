//! The functions for memory that the compiler calls, for code that runs before the C library starts.

/// Defines the functions for memory that the compiler calls. A static C library has several of each,
/// and selects them at its start; until then its own cannot be called.
/// The prefix precedes their names.
#[doc(hidden)]
#[macro_export]
macro_rules! memory_functions {
    ($prefix:literal) => {
        // System V calling convention. Short blocks are loaded completely before they are stored.
        ::core::arch::global_asm!(
            concat!(".globl ", $prefix, "memcpy"),
            concat!(".globl ", $prefix, "memmove"),
            concat!(".type ", $prefix, "memcpy, @function"),
            concat!(".type ", $prefix, "memmove, @function"),
            concat!($prefix, "memcpy:"),
            concat!($prefix, "memmove:"),
            "mov rax, rdi",
            "cmp rdx, 16",
            "jb 2f",
            "cmp rdx, 32",
            "ja 9f",
            "movups xmm0, [rsi]",
            "movups xmm1, [rsi + rdx - 16]",
            "movups [rdi], xmm0",
            "movups [rdi + rdx - 16], xmm1",
            "ret",
            // More than 32 bytes: backwards if the end of the source would be overwritten.
            "9:",
            "mov rcx, rdi",
            "sub rcx, rsi",
            "cmp rcx, rdx",
            "jb 7f",
            "cmp rdx, 256",
            "ja 6f",
            "movups xmm1, [rsi + rdx - 16]",
            "lea r8, [rdi + rdx - 16]",
            "5:",
            "movups xmm0, [rsi]",
            "movups [rdi], xmm0",
            "add rsi, 16",
            "add rdi, 16",
            "cmp rdi, r8",
            "jb 5b",
            "movups [r8], xmm1",
            "ret",
            "6:",
            "mov rcx, rdx",
            "rep movsb",
            "ret",
            "7:",
            "movups xmm0, [rsi + rdx - 16]",
            "movups [rdi + rdx - 16], xmm0",
            "sub rdx, 16",
            "cmp rdx, 16",
            "jae 7b",
            // Fewer than 16 bytes.
            "2:",
            "cmp rdx, 8",
            "jb 3f",
            "mov rcx, [rsi]",
            "mov r8, [rsi + rdx - 8]",
            "mov [rdi], rcx",
            "mov [rdi + rdx - 8], r8",
            "ret",
            "3:",
            "cmp rdx, 4",
            "jb 4f",
            "mov ecx, [rsi]",
            "mov r8d, [rsi + rdx - 4]",
            "mov [rdi], ecx",
            "mov [rdi + rdx - 4], r8d",
            "ret",
            "4:",
            "test rdx, rdx",
            "je 8f",
            "movzx ecx, byte ptr [rsi]",
            "movzx r8d, byte ptr [rsi + rdx - 1]",
            "mov r9, rdx",
            "shr r9, 1",
            "movzx r10d, byte ptr [rsi + r9]",
            "mov [rdi + r9], r10b",
            "mov [rdi], cl",
            "mov [rdi + rdx - 1], r8b",
            "8:",
            "ret",
            concat!(".size ", $prefix, "memcpy, . - ", $prefix, "memcpy"),
            concat!(".globl ", $prefix, "memset"),
            concat!(".type ", $prefix, "memset, @function"),
            concat!($prefix, "memset:"),
            "mov r8, rdi",
            "movzx eax, sil",
            "mov rcx, rdx",
            "rep stosb",
            "mov rax, r8",
            "ret",
            concat!(".size ", $prefix, "memset, . - ", $prefix, "memset"),
            concat!(".globl ", $prefix, "memcmp"),
            concat!(".globl ", $prefix, "bcmp"),
            concat!(".type ", $prefix, "memcmp, @function"),
            concat!(".type ", $prefix, "bcmp, @function"),
            concat!($prefix, "memcmp:"),
            concat!($prefix, "bcmp:"),
            "cmp rdx, 8",
            "jb 2f",
            "9:",
            "mov rax, [rdi]",
            "mov rcx, [rsi]",
            "cmp rax, rcx",
            "jne 5f",
            "add rdi, 8",
            "add rsi, 8",
            "sub rdx, 8",
            "cmp rdx, 8",
            "jae 9b",
            "2:",
            "test rdx, rdx",
            "je 4f",
            "3:",
            "movzx eax, byte ptr [rdi]",
            "movzx ecx, byte ptr [rsi]",
            "sub eax, ecx",
            "jne 6f",
            "inc rdi",
            "inc rsi",
            "dec rdx",
            "jne 3b",
            "4:",
            "xor eax, eax",
            "6:",
            "ret",
            // The first byte that differs decides.
            "5:",
            "bswap rax",
            "bswap rcx",
            "cmp rax, rcx",
            "sbb eax, eax",
            "or eax, 1",
            "ret",
            concat!(".size ", $prefix, "memcmp, . - ", $prefix, "memcmp"),
            concat!(".globl ", $prefix, "strlen"),
            concat!(".type ", $prefix, "strlen, @function"),
            concat!($prefix, "strlen:"),
            "xor eax, eax",
            "9:",
            "cmp byte ptr [rdi + rax], 0",
            "je 2f",
            "inc rax",
            "jmp 9b",
            "2:",
            "ret",
            concat!(".size ", $prefix, "strlen, . - ", $prefix, "strlen"),
        );
    };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::ffi::{CStr, c_char, c_int};

    memory_functions!("tested_");

    // SAFETY: the functions have the signatures of the C library's.
    unsafe extern "C" {
        fn tested_memmove(to: *mut u8, from: *const u8, size: usize) -> *mut u8;
        fn tested_memcpy(to: *mut u8, from: *const u8, size: usize) -> *mut u8;
        fn tested_memset(to: *mut u8, byte: c_int, size: usize) -> *mut u8;
        fn tested_memcmp(a: *const u8, b: *const u8, size: usize) -> c_int;
        fn tested_bcmp(a: *const u8, b: *const u8, size: usize) -> c_int;
        fn tested_strlen(text: *const c_char) -> usize;
    }

    /// Sizes around each border of the functions.
    fn sizes() -> impl Iterator<Item = usize> {
        (0..80).chain(250..275).chain([1000])
    }

    #[test]
    fn blocks_are_moved_in_both_directions() {
        for size in sizes() {
            for shift in (0..40).chain([size, size + 1]) {
                for (from, to) in [(8, 8 + shift), (8 + shift, 8)] {
                    let mut bytes: Vec<u8> = (0..2500u32).map(|at| (at * 7 % 251) as u8).collect();
                    let mut expected = bytes.clone();
                    expected.copy_within(from..from + size, to);
                    let start = bytes.as_mut_ptr();
                    // SAFETY: both ranges are inside of the vector.
                    let end = unsafe { tested_memmove(start.add(to), start.add(from), size) };
                    assert_eq!(end, start.wrapping_add(to));
                    assert!(bytes == expected, "{size} bytes from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_copied_filled_and_compared() {
        for size in sizes() {
            let source: Vec<u8> = (0..size).map(|at| (at % 256) as u8).collect();
            let mut copy = vec![1u8; size + 1];
            // SAFETY: the blocks have the size passed, and do not overlap.
            unsafe {
                assert_eq!(
                    tested_memcpy(copy.as_mut_ptr(), source.as_ptr(), size),
                    copy.as_mut_ptr()
                );
                assert_eq!(tested_memcmp(copy.as_ptr(), source.as_ptr(), size), 0);
                assert_eq!(tested_bcmp(copy.as_ptr(), source.as_ptr(), size), 0);
            }
            assert_eq!((&copy[..size], copy[size]), (&source[..], 1));
            for at in 0..size {
                let mut other = source.clone();
                // Its high bit makes it greater, unless bytes are compared as signed ones.
                other[at] ^= 0x80;
                other[at + 1..].fill(0);
                // SAFETY: as above.
                let [there, back] = unsafe {
                    [
                        tested_memcmp(source.as_ptr(), other.as_ptr(), size),
                        tested_memcmp(other.as_ptr(), source.as_ptr(), size),
                    ]
                };
                assert_eq!(there < 0, source < other, "{at} of {size}");
                assert_eq!(back < 0, other < source, "{at} of {size}");
                assert!(there != 0 && back != 0);
            }
            // SAFETY: as above.
            let filled = unsafe { tested_memset(copy.as_mut_ptr(), 0x1ff, size) };
            assert_eq!(filled, copy.as_mut_ptr());
            assert!(copy[..size].iter().all(|byte| *byte == 0xff) && copy[size] == 1);
        }
    }

    #[test]
    fn strings_are_measured() {
        for text in [c"", c"a", c"/usr/bin/make"] {
            // SAFETY: the string ends in a NUL.
            assert_eq!(unsafe { tested_strlen(text.as_ptr()) }, CStr::count_bytes(text));
        }
    }
}
