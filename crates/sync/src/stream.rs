//! The stream of files between client and pod: records with their lengths.
//!
//! A stream is a line with its version, records, and a last record with their number, so a stream that was cut is
//! found. Numbers are big-endian.

use std::io::{ErrorKind, Read, Write};

use crate::entry::Entry;
use crate::error::SyncError;
use crate::path::MAX_PATH;

/// A record. Paths are as the sender wrote them: the receiver parses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A file; its content follows.
    File { path: Vec<u8>, is_executable: bool },
    /// A link and its target.
    Link { path: Vec<u8>, target: Vec<u8> },
    /// A path that both sides had, and the sender has no more.
    Deleted { path: Vec<u8> },
    /// A version that both sides have.
    Known { path: Vec<u8>, entry: Entry },
    /// A path that the sender cannot copy, and why.
    Skipped { path: Vec<u8>, why: String },
}

/// Limits of a stream that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

const VERSION: &[u8] = b"aifo-sync 1\n";
const CHUNK: usize = 64 << 10;

/// Writes a stream.
pub(crate) struct StreamWriter<W> {
    out: W,
    count: u64,
}

impl<W: Write> StreamWriter<W> {
    pub(crate) fn new(mut out: W) -> Result<Self, SyncError> {
        out.write_all(VERSION)?;
        Ok(StreamWriter { out, count: 0 })
    }

    /// Writes a record. A file's content must follow.
    pub(crate) fn record(&mut self, record: &Record) -> Result<(), SyncError> {
        self.count += 1;
        match record {
            Record::File { path, is_executable } => {
                self.head(b'F', path)?;
                self.out.write_all(&[u8::from(*is_executable)])?;
            }
            Record::Link { path, target } => {
                self.head(b'L', path)?;
                self.bytes(target)?;
            }
            Record::Deleted { path } => self.head(b'D', path)?,
            Record::Known { path, entry: Entry::File { digest, is_executable } } => {
                self.head(b'K', path)?;
                self.out.write_all(&[u8::from(*is_executable)])?;
                self.out.write_all(digest)?;
            }
            Record::Known { path, entry: Entry::Link(target) } => {
                self.head(b'k', path)?;
                self.bytes(target)?;
            }
            Record::Skipped { path, why } => {
                self.head(b'S', path)?;
                self.bytes(why.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes the content of a file, to its end or an error of it, which the receiver finds.
    pub(crate) fn content(&mut self, mut file: impl Read) -> Result<bool, SyncError> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = match file.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.ok(),
            };
            let bytes = chunk.get(..count.unwrap_or(0)).unwrap_or_default();
            self.out.write_all(&u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes())?;
            self.out.write_all(bytes)?;
            if bytes.is_empty() {
                let is_whole = count.is_some();
                self.out.write_all(&[u8::from(is_whole)])?;
                return Ok(is_whole);
            }
        }
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> Result<(), SyncError> {
        self.out.write_all(b"E")?;
        self.out.write_all(&self.count.to_be_bytes())?;
        Ok(self.out.flush()?)
    }

    fn head(&mut self, tag: u8, path: &[u8]) -> Result<(), SyncError> {
        self.out.write_all(&[tag])?;
        self.bytes(path)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), SyncError> {
        let length = u16::try_from(bytes.len()).map_err(|_| SyncError::Malformed("a long text"))?;
        self.out.write_all(&length.to_be_bytes())?;
        Ok(self.out.write_all(bytes)?)
    }
}

/// Reads a stream of an untrusted sender.
pub(crate) struct StreamReader<R> {
    from: R,
    left: StreamLimits,
    limits: StreamLimits,
    count: u64,
    /// Whether the content of a file comes next.
    has_content: bool,
}

impl<R: Read> StreamReader<R> {
    pub(crate) fn new(from: R, limits: StreamLimits) -> Result<Self, SyncError> {
        let mut reader = StreamReader { from, left: limits, limits, count: 0, has_content: false };
        let version: [u8; VERSION.len()] = reader.array()?;
        if version != VERSION {
            return Err(SyncError::Malformed("it is not one of this version"));
        }
        Ok(reader)
    }

    /// Reads the next record; `None` at the end. Content that was not read is skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, SyncError> {
        if self.has_content {
            self.content(std::io::sink())?;
        }
        let [tag] = self.array()?;
        if tag == b'E' {
            return match u64::from_be_bytes(self.array()?) == self.count {
                true => Ok(None),
                false => Err(SyncError::Malformed("its number of records is wrong")),
            };
        }
        self.count += 1;
        let limit = self.limits.records;
        self.left.records = self
            .left
            .records
            .checked_sub(1)
            .ok_or(SyncError::StreamLimit { limit, of: "files" })?;
        let path = self.bytes()?;
        Ok(Some(match tag {
            b'F' => {
                self.has_content = true;
                Record::File { path, is_executable: self.flag()? }
            }
            b'L' => Record::Link { path, target: self.bytes()? },
            b'D' => Record::Deleted { path },
            b'K' => {
                let is_executable = self.flag()?;
                Record::Known { path, entry: Entry::file(self.array()?, is_executable) }
            }
            b'k' => Record::Known { path, entry: Entry::Link(self.bytes()?) },
            b'S' => {
                let why = String::from_utf8_lossy(&self.bytes()?).into_owned();
                Record::Skipped { path, why }
            }
            _ => return Err(SyncError::Malformed("it has an unknown record")),
        }))
    }

    /// Writes the content of a file to `out`. Returns false if the sender could not read all of it.
    pub(crate) fn content(&mut self, mut out: impl Write) -> Result<bool, SyncError> {
        self.has_content = false;
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = u64::from(u32::from_be_bytes(self.array()?));
            if length == 0 {
                return self.flag();
            }
            let limit = self.limits.bytes;
            self.left.bytes = self
                .left
                .bytes
                .checked_sub(length)
                .ok_or(SyncError::StreamLimit { limit, of: "bytes" })?;
            let bytes = usize::try_from(length).ok().and_then(|length| chunk.get_mut(..length));
            let bytes = bytes.ok_or(SyncError::Malformed("it has a large chunk"))?;
            self.from.read_exact(bytes).map_err(truncated)?;
            out.write_all(bytes).map_err(SyncError::file("write", "the temporary copy"))?;
        }
    }

    fn flag(&mut self) -> Result<bool, SyncError> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(SyncError::Malformed("it has an invalid flag")),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, SyncError> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        if length > MAX_PATH {
            return Err(SyncError::Malformed("it has a long text"));
        }
        let mut bytes = vec![0; length];
        self.from.read_exact(&mut bytes).map_err(truncated)?;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SyncError> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(truncated)?;
        Ok(bytes)
    }
}

fn truncated(error: std::io::Error) -> SyncError {
    match error.kind() {
        ErrorKind::UnexpectedEof => SyncError::Truncated,
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StreamLimits = StreamLimits { records: 8, bytes: 200_000 };

    fn records() -> Vec<Record> {
        let path = |path: &str| path.as_bytes().to_vec();
        vec![
            Record::File { path: path("a"), is_executable: true },
            Record::Link { path: path("b"), target: path("a") },
            Record::Deleted { path: path("c") },
            Record::Known { path: path("d"), entry: Entry::file([7; 32], false) },
            Record::Known { path: path("e"), entry: Entry::Link(path("x")) },
            Record::Skipped { path: path("f"), why: "is a socket".to_owned() },
        ]
    }

    fn written(content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::new(&mut bytes).unwrap();
        for record in records() {
            writer.record(&record).unwrap();
            if matches!(record, Record::File { .. }) {
                assert!(writer.content(content).unwrap());
            }
        }
        writer.finish().unwrap();
        bytes
    }

    fn read(bytes: &[u8], limits: StreamLimits) -> Result<(Vec<Record>, Vec<u8>), SyncError> {
        let mut reader = StreamReader::new(bytes, limits)?;
        let (mut found, mut content) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next()? {
            if matches!(record, Record::File { .. }) {
                assert!(reader.content(&mut content)?);
            }
            found.push(record);
        }
        Ok((found, content))
    }

    #[test]
    fn records_are_read_back_and_a_cut_stream_is_an_error() {
        let content = vec![b'x'; 150_000];
        let bytes = written(&content);
        assert_eq!(read(&bytes, LIMITS).unwrap(), (records(), content));
        let bytes = written(b"short");
        for cut in 0..bytes.len() {
            assert!(matches!(read(&bytes[..cut], LIMITS), Err(SyncError::Truncated)), "{cut}");
        }
        let mut reader = StreamReader::new(&bytes[..], LIMITS).unwrap();
        let skipped: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        assert_eq!(skipped, records(), "content is skipped");
    }

    #[test]
    fn limits_end_a_stream() {
        let bytes = written(&[0; 100]);
        for limits in [StreamLimits { records: 5, ..LIMITS }, StreamLimits { bytes: 99, ..LIMITS }]
        {
            assert!(matches!(read(&bytes, limits), Err(SyncError::StreamLimit { .. })));
        }
    }

    #[test]
    fn any_bytes_are_a_stream_or_an_error() {
        let bytes = written(b"content");
        for at in 0..bytes.len() {
            for value in [0, 1, b'E', b'F', 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let mut reader = match StreamReader::new(&changed[..], LIMITS) {
                    Ok(reader) => reader,
                    Err(_) => continue,
                };
                while let Ok(Some(_)) = reader.next() {}
            }
        }
    }
}
