//! The version of a workspace that client and pod have in common.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use crate::entry::Entry;
use crate::error::SyncError;
use crate::limits::UploadLimits;
use crate::path::WorkspacePath;
use crate::stream::{Record, StreamLimits, StreamReader, StreamWriter};

/// The files that both sides had at last. The client keeps it, and sends it with each fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(pub(crate) BTreeMap<WorkspacePath, Entry>);

impl Snapshot {
    /// Writes it, for a file or the pod.
    pub fn write(&self, out: impl Write) -> Result<(), SyncError> {
        let mut stream = StreamWriter::new(out)?;
        for (path, entry) in &self.0 {
            stream.record(&Record::Known {
                path: path.as_bytes().to_owned(),
                entry: entry.clone(),
            })?;
        }
        stream.finish()
    }

    /// Reads one.
    pub fn read(from: impl Read) -> Result<Self, SyncError> {
        // A pod can add as many files as were uploaded.
        let limits = StreamLimits { records: 2 * UploadLimits::default().files, bytes: 0 };
        let mut stream = StreamReader::new(from, limits)?;
        let mut snapshot = Snapshot::default();
        while let Some(record) = stream.next()? {
            let Record::Known { path, entry } = record else {
                return Err(SyncError::Malformed("it is not a snapshot"));
            };
            let path = WorkspacePath::parse(&path)
                .map_err(|why| SyncError::Path { path: escaped(&path), why })?;
            snapshot.0.insert(path, entry);
        }
        Ok(snapshot)
    }

    /// Returns the number of files and links.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it has no file.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the version of a path that both sides have; `None`: none.
    pub(crate) fn set(&mut self, path: WorkspacePath, entry: Option<Entry>) {
        match entry {
            Some(entry) => self.0.insert(path, entry),
            None => self.0.remove(&path),
        };
    }
}

/// Returns a path for messages.
pub(crate) fn escaped(path: &[u8]) -> String {
    aifo_types::escape_line(&String::from_utf8_lossy(path))
}
