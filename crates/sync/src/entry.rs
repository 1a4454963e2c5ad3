//! A file or link of a workspace.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// A file or link. Directories are those of the paths; empty ones are not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File {
        /// The SHA-256 of its content.
        digest: [u8; 32],
        /// Whether its owner may execute it.
        is_executable: bool,
    },
    /// A symbolic link and its target.
    Link(Vec<u8>),
}

impl Entry {
    pub(crate) fn file(digest: [u8; 32], is_executable: bool) -> Self {
        Entry::File { digest, is_executable }
    }
}

/// A writer that hashes the bytes, and passes them on.
pub(crate) struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Hashing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Hashing { inner, hash: Sha256::new() }
    }

    pub(crate) fn digest(self) -> [u8; 32] {
        self.hash.finalize().into()
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Returns the digest of all bytes.
pub(crate) fn digest_of(mut bytes: impl Read) -> io::Result<[u8; 32]> {
    let mut hashing = Hashing::new(io::sink());
    io::copy(&mut bytes, &mut hashing)?;
    Ok(hashing.digest())
}
