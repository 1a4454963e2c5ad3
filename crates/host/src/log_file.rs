//! A file of JSON lines of limited size, as a session log (`spec/log.md`).

mod line_reader;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

pub use line_reader::LineReader;

/// Returns the path of the older part of a log, which exists once the log has been rotated.
pub(crate) fn rotated_log(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Returns the path of the connections beside a session log.
pub fn connections_path(log: &Path) -> PathBuf {
    log.with_extension("connections")
}

/// Appends a line. A full disk is ignored.
pub fn append(file: &Mutex<LogFile>, record: &impl Serialize) {
    let Ok(mut line) = serde_json::to_vec(record) else { return };
    line.push(b'\n');
    let _ = file.lock().unwrap_or_else(PoisonError::into_inner).append(&line);
}

/// A log of limited size.
#[derive(Debug)]
pub struct LogFile {
    pub(crate) path: PathBuf,
    file: File,
    len: usize,
    max: usize,
}

impl LogFile {
    /// Creates a log of at most `max` bytes. Errors: it exists, or cannot be created.
    pub fn create(path: &Path, max: usize) -> io::Result<Self> {
        let file = create(path)?;
        Ok(LogFile { path: path.to_owned(), file, len: 0, max })
    }

    /// Appends a line. A line that makes the log too long starts a new file; the full one replaces
    /// the older part. Without a new file the line is lost, so that the log stays bounded.
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.len > 0 && self.len.saturating_add(line.len()) > self.max {
            match fs::rename(&self.path, rotated_log(&self.path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                // The user may have removed it.
                _ => {}
            }
            self.file = create(&self.path)?;
            self.len = 0;
        }
        self.len = self.len.saturating_add(line.len());
        // One write per line, so readers see whole lines.
        self.file.write_all(line)
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_is_rotated_and_stays_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.jsonl");
        let mut log = LogFile::create(&path, 10).unwrap();
        for line in
            ["one\n", "two\n", "three\n", "four\n", "a line that alone is longer\n", "six\n"]
        {
            log.append(line.as_bytes()).unwrap();
            let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
            let (older, newer) = (text(&rotated_log(&path)), text(&path));
            let expected = match line {
                "one\n" => ["", "one\n"],
                "two\n" => ["", "one\ntwo\n"],
                "three\n" => ["one\ntwo\n", "three\n"],
                "four\n" => ["three\n", "four\n"],
                "six\n" => ["a line that alone is longer\n", "six\n"],
                long => ["four\n", long],
            };
            assert_eq!([older.as_str(), &newer], expected);
        }
    }
}
