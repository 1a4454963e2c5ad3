//! Reads a file of lines that its session may rotate.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::rotated_log;

/// Reads the lines of a file that its session may rotate.
#[derive(Debug)]
pub struct LineReader {
    path: PathBuf,
    /// The older part, until it has been read.
    older: Option<File>,
    file: File,
    /// The beginning of a line that is still being written, or was cut off.
    unread: Vec<u8>,
}

impl LineReader {
    /// Opens a file, with its older part. Errors: it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let older = File::open(rotated_log(path)).ok();
        // They are the same if the log was rotated just now.
        let older = older.filter(|older| !are_same(older.metadata(), file.metadata()));
        Ok(LineReader { path: path.to_owned(), older, file, unread: Vec::new() })
    }

    /// Parses the lines since the last read. Reads at most `limit` bytes at once; the rest follows with the
    /// next read. Lines without a value are skipped.
    pub fn read<T>(
        &mut self,
        limit: u64,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        self.fill(limit)?;
        let end = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.unread.drain(..end).collect();
        Ok(whole.split(|byte| *byte == b'\n').filter_map(parse).collect())
    }

    fn fill(&mut self, limit: u64) -> io::Result<()> {
        let mut rest = limit;
        if let Some(older) = &self.older {
            rest = append(older, rest, &mut self.unread)?;
            if rest == 0 {
                return Ok(());
            }
            self.older = None;
        }
        // A rotated log gets no more lines, but may have got some since the last read.
        let was_rotated = !are_same(self.path.metadata(), self.file.metadata());
        rest = append(&self.file, rest, &mut self.unread)?;
        // Just after the rotation there may be no new file.
        if rest > 0
            && was_rotated
            && let Ok(file) = File::open(&self.path)
        {
            self.file = file;
            append(&self.file, rest, &mut self.unread)?;
        }
        Ok(())
    }
}

/// Appends at most `limit` bytes of a file. Returns the rest of the limit.
fn append(file: &File, limit: u64, to: &mut Vec<u8>) -> io::Result<u64> {
    let read = file.take(limit).read_to_end(to)?;
    Ok(limit.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX)))
}

fn are_same(one: io::Result<Metadata>, other: io::Result<Metadata>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
