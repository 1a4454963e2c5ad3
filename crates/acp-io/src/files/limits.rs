//! Limits on files.

/// Limits on files, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    /// Bytes read by one request. A line of the protocol holds 16 MiB.
    pub read: usize,
    /// Bytes scanned for the first requested line: a file may be endless.
    pub skipped: u64,
    /// Bytes written by one request.
    pub write: usize,
}

impl Default for FileLimits {
    fn default() -> Self {
        FileLimits { read: 10 * MIB, skipped: 1 << 30, write: 50 * MIB }
    }
}

const MIB: usize = 1 << 20;
