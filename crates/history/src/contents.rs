//! Reads contents from the store, one after the other, so that none but a small one is in memory.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write, copy, sink};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::error::HistoryError;
use crate::git::Store;
use crate::version::BlobId;

/// A git process that answers with contents. The drop ends it.
pub(crate) struct Contents {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Contents {
    /// Errors: one of the ids that will be asked for is missing.
    pub(crate) fn open(store: &Store, ids: &BTreeSet<BlobId>) -> Result<Self, HistoryError> {
        let all: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let known = store.run(["cat-file", "--batch-check=%(objecttype)"], &all)?;
        let known = known.split(|byte| *byte == b'\n').filter(|line| *line == b"blob");
        if known.count() != ids.len() {
            return Err(HistoryError::Damaged("a content is missing"));
        }
        Contents::start(store)
    }

    /// As [`open`](Self::open), without the check.
    pub(crate) fn start(store: &Store) -> Result<Self, HistoryError> {
        let system = |source| HistoryError::System { action: "start git", source };
        let mut command = store.command(["cat-file", "--batch"]);
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(system)?;
        let (requests, Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(HistoryError::Ended);
        };
        Ok(Contents { child, requests, answers: BufReader::new(answers) })
    }

    /// Writes a content to `to`. Errors: it is missing, or cannot be written.
    pub(crate) fn copy(&mut self, id: BlobId, to: &mut impl Write) -> io::Result<()> {
        let length = self.ask(id)?;
        self.answer(length, to)
    }

    /// Returns a content; `None` if it is longer than `most`.
    pub(crate) fn read(&mut self, id: BlobId, most: u64) -> io::Result<Option<Vec<u8>>> {
        let length = self.ask(id)?;
        if length > most {
            self.answer(length, &mut sink())?;
            return Ok(None);
        }
        let mut content = Vec::new();
        self.answer(length, &mut content)?;
        Ok(Some(content))
    }

    /// Returns the length of the content that follows.
    fn ask(&mut self, id: BlobId) -> io::Result<u64> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        requests.write_all(format!("{id}\n").as_bytes())?;
        let mut head = String::new();
        self.answers.read_line(&mut head)?;
        let length = head.trim_end().strip_prefix(&format!("{id} blob "));
        let length = length.and_then(|length| length.parse().ok());
        length.ok_or_else(|| io::Error::other("the store does not have the content"))
    }

    fn answer(&mut self, length: u64, to: &mut impl Write) -> io::Result<()> {
        let mut content = (&mut self.answers).take(length);
        let copied = copy(&mut content, to);
        // The next answer begins after this one, also if it could not be written.
        copy(&mut content, &mut sink())?;
        self.answers.read_exact(&mut [0])?;
        match copied? {
            copied if copied == length => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
