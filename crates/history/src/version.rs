//! Versions of files, links and directories.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::path::Path;
use crate::scope::Uncovered;

/// A workspace at one time, as far as it is covered.
pub(crate) type Objects = BTreeMap<Path, Version>;

/// The version of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    File {
        content: BlobId,
        mode: u16,
    },
    /// The content is its target.
    Link {
        content: BlobId,
    },
    Directory {
        mode: u16,
    },
    /// It is there, but its content is not kept. A directory stands for all below it.
    Uncovered(Uncovered),
}

/// The id that the store's git gives to a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlobId([u8; 32]);

/// Bytes that are read at once of a large content.
pub(crate) const PART: usize = 128 << 10;
/// The bits of permissions that are kept.
pub(crate) const PERMISSIONS: u32 = 0o777;

impl Version {
    pub(crate) fn content(self) -> Option<BlobId> {
        match self {
            Version::File { content, .. } | Version::Link { content } => Some(content),
            Version::Directory { .. } | Version::Uncovered(_) => None,
        }
    }

    pub(crate) fn is_directory(self) -> bool {
        matches!(self, Version::Directory { .. })
    }

    /// Returns the permissions of a file if git does not keep them.
    pub(crate) fn odd_mode(self) -> Option<u16> {
        match self {
            Version::File { mode, .. } if mode != 0o644 && mode != 0o755 => Some(mode),
            _ => None,
        }
    }
}

/// Computes the id of a content that comes in parts.
pub(crate) struct BlobHasher(Sha256);

impl BlobHasher {
    /// `length` is that of all parts.
    pub(crate) fn new(length: u64) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(format!("blob {length}\0"));
        BlobHasher(hasher)
    }

    pub(crate) fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    pub(crate) fn finish(self) -> BlobId {
        BlobId(self.0.finalize().into())
    }
}

impl BlobId {
    pub(crate) fn of(content: &[u8]) -> Self {
        let mut hasher = BlobHasher::new(content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }

    /// Reads a file of this length from its start. Errors: it is shorter, or cannot be read.
    pub(crate) fn of_file(file: &File, length: u64) -> io::Result<Self> {
        let mut hasher = BlobHasher::new(length);
        let mut part = vec![0; PART];
        let mut at = 0;
        while at < length {
            let room = usize::try_from(length - at).unwrap_or(PART).min(PART);
            let read = file.read_at(part.get_mut(..room).unwrap_or_default(), at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hasher.update(part.get(..read).unwrap_or_default());
            at += read as u64;
        }
        Ok(hasher.finish())
    }

    pub(crate) fn parse(hex: &str) -> Option<Self> {
        let mut id = [0; 32];
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(BlobId(id))
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A call, as checkpoints name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its id in the session log.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments, quoted, without secrets.
    pub argv: String,
    /// The exit code; `None` while it runs.
    pub exit: Option<u8>,
}

impl Call {
    /// Returns the tool with its arguments, safe for a terminal.
    pub fn command(&self) -> String {
        aifo_types::escape_line(format!("{} {}", self.tool, self.argv).trim_end())
    }
}
