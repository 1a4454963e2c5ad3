//! One file: its content, and how a change shows.

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aifo_workspace::Tree;

use crate::path::as_path;
use crate::scope::MAX_FILE;
use crate::version::{BlobId, PERMISSIONS};

/// Timestamps of files are at most this coarse.
const CLOCK: Duration = Duration::from_millis(20);
/// Attempts to read or store a file that is being written.
pub(crate) const ATTEMPTS: usize = 3;
/// Bytes; a larger content is not held in memory.
pub(crate) const MAX_SMALL: u64 = 256 << 10;

/// A content that is about to be stored.
pub(crate) enum Content {
    Small(Vec<u8>),
    /// Read again when it is stored.
    Large {
        file: File,
        length: u64,
    },
}

/// A file as it was read.
pub(crate) struct FileRead {
    pub(crate) id: BlobId,
    pub(crate) content: Content,
    /// From before it was read.
    pub(crate) metadata: Metadata,
}

/// Reads a file of which `stat` says the same before and after, or else what a small one had at the last attempt. A
/// large one that is written all the time is not read.
pub(crate) fn read(tree: &Tree, path: &[u8]) -> Option<FileRead> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let (file, _) = tree.open_file(as_path(path)).ok()?;
        let metadata = file.metadata().ok()?;
        let length = metadata.len();
        if length > MAX_FILE {
            return None;
        }
        let is_stable = || file.metadata().is_ok_and(|now| stamp(&now) == stamp(&metadata));
        if length > MAX_SMALL {
            // A file to which something is appended has the same beginning.
            let read = || BlobId::of_file(&file, length).ok();
            let Some(id) = read().filter(|id| is_stable() || read() == Some(*id)) else { continue };
            let content = Content::Large { file: file.try_clone().ok()?, length };
            return Some(FileRead { id, content, metadata });
        }
        let mut content = Vec::with_capacity(usize::try_from(length).ok()? + 1);
        (&file).take(MAX_SMALL + 1).read_to_end(&mut content).ok()?;
        if content.len() as u64 > MAX_SMALL {
            continue;
        }
        let (id, is_stable) = (BlobId::of(&content), is_stable());
        last = Some(FileRead { id, content: Content::Small(content), metadata });
        if is_stable {
            break;
        }
    }
    last
}

/// Returns the permissions that are kept.
pub(crate) fn mode(metadata: &Metadata) -> u16 {
    (metadata.permissions().mode() & PERMISSIONS) as u16
}

/// Returns a number that changes whenever a file is written, replaced or gets other permissions.
pub(crate) fn stamp(metadata: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.mode(), times).hash(&mut hasher);
    hasher.finish()
}

/// Returns whether a later change could leave the times as they are.
pub(crate) fn is_recent(metadata: &Metadata) -> bool {
    let changed = u64::try_from(metadata.ctime()).unwrap_or_default();
    let changed = Duration::new(changed, u32::try_from(metadata.ctime_nsec()).unwrap_or_default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(changed) < CLOCK
}
