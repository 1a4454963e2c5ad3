//! Begins a commit with its first change.

use crate::checkpoint::Note;
use crate::error::HistoryError;
use crate::file::Content;
use crate::version::{BlobId, Version};
use crate::writer::Writer;

/// A commit that begins with its first change.
pub(crate) struct Commit<'a> {
    pub(crate) writer: &'a mut Writer,
    pub(crate) note: Note,
    pub(crate) has_begun: bool,
}

impl Commit<'_> {
    pub(crate) fn begin(&mut self) -> Result<(), HistoryError> {
        self.has_begun = true;
        self.writer.begin(&self.note)
    }

    /// As [`Writer::change`].
    pub(crate) fn change(
        &mut self,
        path: &[u8],
        before: Option<Version>,
        after: Option<Version>,
        content: Option<&Content>,
    ) -> Result<Option<BlobId>, HistoryError> {
        if !self.has_begun {
            self.begin()?;
        }
        self.writer.change(path, before, after, content)
    }
}
