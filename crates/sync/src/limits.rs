//! The choice of files, and limits on them.

use crate::stream::StreamLimits;

/// Selects the files of an upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UploadScope {
    /// Tracked files, and those that `.gitignore` and `.git/info/exclude` do not ignore.
    #[default]
    Unignored,
    /// All files.
    All,
}

/// Limits of an upload, and of the changes that are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadLimits {
    /// Files and links.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
}

impl Default for UploadLimits {
    fn default() -> Self {
        UploadLimits { files: 200_000, bytes: 2 << 30 }
    }
}

impl From<UploadLimits> for StreamLimits {
    fn from(limits: UploadLimits) -> Self {
        // Records of skipped paths and deletions are counted too.
        StreamLimits { records: 2 * limits.files, bytes: limits.bytes }
    }
}
