//! Buffers of relayed bytes, shared by all connections of a process.
//!
//! A direction holds a buffer while it relays, and while its receiver is stalled, so an idle connection
//! has none. The number of large buffers is bounded; further stalled directions get small ones.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A buffer of [`LARGE`] or [`SMALL`] bytes. Dropping a large one returns it.
#[derive(Debug)]
pub(crate) struct Buffer(Box<[u8]>);

/// Over loopback this is half again as fast as 64 KiB, and as fast as splice(2).
const LARGE: usize = 256 * 1024;

/// The size if there are [`MAX_LARGE`] other ones.
const SMALL: usize = 16 * 1024;

/// Large buffers at once.
const MAX_LARGE: usize = 64;

/// Large buffers that wait for the next use.
const MAX_IDLE: usize = 2;

static LARGE_ONES: AtomicUsize = AtomicUsize::new(0);
static IDLE: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

impl Buffer {
    /// Returns a buffer with unspecified bytes.
    pub(crate) fn take() -> Buffer {
        let idle = IDLE.lock().unwrap_or_else(|error| error.into_inner()).pop();
        if let Some(bytes) = idle {
            return Buffer(bytes);
        }
        let more = |count| (count < MAX_LARGE).then_some(count + 1);
        let is_large = LARGE_ONES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        Buffer(vec![0; if is_large { LARGE } else { SMALL }].into_boxed_slice())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.len() != LARGE {
            return;
        }
        let mut idle = IDLE.lock().unwrap_or_else(|error| error.into_inner());
        if idle.len() < MAX_IDLE {
            idle.push(std::mem::take(&mut self.0));
        } else {
            LARGE_ONES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_buffers_are_small() {
        let buffers: Vec<Buffer> = (0..MAX_LARGE + 10).map(|_| Buffer::take()).collect();
        let of = |size| buffers.iter().filter(|buffer| buffer.len() == size).count();
        // Another test of this process may have some.
        assert!(of(LARGE) <= MAX_LARGE && of(SMALL) >= 10);
        assert_eq!(of(LARGE) + of(SMALL), buffers.len());
        drop(buffers);
        assert!(IDLE.lock().unwrap().len() <= MAX_IDLE);
        assert_eq!(Buffer::take().len(), LARGE);
    }
}
