//! The allocator of a program that begins before the C library starts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Allocates from a fixed arena until the C library has started, then from the system. Memory of
/// the arena stays valid for good, and is not reused.
pub struct Arena;

/// True if the C library has started.
pub(super) static HAS_C_LIBRARY: AtomicBool = AtomicBool::new(false);

/// Bytes of the arena. Untouched pages of it cost nothing. A call needs a few times the limit on
/// arguments and environment.
const SIZE: usize = 1024 * 1024;

#[repr(align(16))]
struct Space(UnsafeCell<[u8; SIZE]>);

// SAFETY: `NEXT` gives each byte to one allocation only.
unsafe impl Sync for Space {}

static SPACE: Space = Space(UnsafeCell::new([0; SIZE]));
/// The offset of the first free byte.
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn base() -> *mut u8 {
    SPACE.0.get().cast()
}

/// Returns the offset of a block in the arena.
fn offset(block: *mut u8) -> Option<usize> {
    block.addr().checked_sub(base().addr()).filter(|offset| *offset < SIZE)
}

/// Takes a block from the arena; null if it is full. One thread runs until the C library has started.
fn take(layout: Layout) -> *mut u8 {
    let next = NEXT.load(Ordering::Relaxed);
    // The arena is aligned to 16 bytes, and no allocation of this program needs more.
    let start = next.next_multiple_of(layout.align());
    match start.checked_add(layout.size()) {
        Some(end) if end <= SIZE && layout.align() <= 16 => {
            NEXT.store(end, Ordering::Relaxed);
            base().wrapping_add(start)
        }
        _ => ptr::null_mut(),
    }
}

// Inlined into every function that allocates, this would take more than 80 KiB.
//
// SAFETY: blocks of the arena are distinct, aligned, and as large as their layout; other blocks are
// the system's.
unsafe impl GlobalAlloc for Arena {
    #[inline(never)]
    // SAFETY: the caller's part is that of the trait.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HAS_C_LIBRARY.load(Ordering::Relaxed) {
            // SAFETY: passed on to the caller.
            return unsafe { System.alloc(layout) };
        }
        take(layout)
    }

    #[inline(never)]
    // SAFETY: the caller's part is that of the trait.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if HAS_C_LIBRARY.load(Ordering::Relaxed) {
            // SAFETY: passed on to the caller.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let block = take(layout);
        if !block.is_null() {
            // SAFETY: the block is this large. It may end a block that was shortened.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline(never)]
    // SAFETY: the caller's part is that of the trait.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if offset(block).is_none() {
            // SAFETY: it is not of the arena, so it is the system's.
            unsafe { System.dealloc(block, layout) };
        }
    }

    #[inline(never)]
    // SAFETY: the caller's part is that of the trait.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(start) = offset(block) else {
            // SAFETY: it is not of the arena, so it is the system's.
            return unsafe { System.realloc(block, layout, size) };
        };
        let is_last = start + layout.size() == NEXT.load(Ordering::Relaxed);
        if is_last && !HAS_C_LIBRARY.load(Ordering::Relaxed) && size <= SIZE - start {
            NEXT.store(start + size, Ordering::Relaxed);
            return block;
        }
        // SAFETY: the new layout is valid by the contract of the trait; both blocks are as large as
        // the part that is copied, and distinct.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
            }
            new
        }
    }
}
