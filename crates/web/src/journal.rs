//! The file of a session history (`spec/web.md#history`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::history::Op;

/// An open journal. Each write is one call, so a killed server loses at most a part of its last one.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    len: u64,
    /// The length when it was last rewritten.
    rewritten: u64,
}

impl Journal {
    /// Opens or creates a journal, and returns its operations. A damaged line ends it: what follows
    /// is dropped.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Op>)> {
        let mut file = private().read(true).append(true).create(true).open(path)?;
        let mut ops = Vec::new();
        let mut len: u64 = 0;
        let mut reader = BufReader::new(&mut file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            let Ok(op) = serde_json::from_slice(&line) else { break };
            if !line.ends_with(b"\n") {
                break;
            }
            ops.push(op);
            len = len.saturating_add(u64::try_from(line.len()).unwrap_or_default());
            line.clear();
        }
        file.set_len(len)?;
        file.seek(SeekFrom::End(0))?;
        Ok((Journal { path: path.to_owned(), file, len, rewritten: 0 }, ops))
    }

    /// Appends operations.
    pub(crate) fn append(&mut self, ops: &[Op]) -> io::Result<()> {
        if ops.is_empty() {
            return Ok(());
        }
        let lines = lines(ops)?;
        self.file.write_all(&lines)?;
        self.len = self.len.saturating_add(u64::try_from(lines.len()).unwrap_or_default());
        Ok(())
    }

    /// Returns whether the file is much longer than the history.
    pub(crate) fn is_long(&self) -> bool {
        self.len > MIN_REWRITE && self.len > self.rewritten.saturating_mul(2)
    }

    /// Replaces all operations.
    pub(crate) fn rewrite(&mut self, ops: &[Op]) -> io::Result<()> {
        let lines = lines(ops)?;
        let new = self.path.with_extension("new");
        // Left by a server that was killed.
        let _ = fs::remove_file(&new);
        let mut file = private().append(true).create_new(true).open(&new)?;
        file.write_all(&lines)?;
        fs::rename(&new, &self.path)?;
        self.file = file;
        self.len = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.rewritten = self.len;
        Ok(())
    }
}

/// Returns options for a file that only its owner can read. A link is not followed.
pub(crate) fn private() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600).custom_flags(O_NOFOLLOW);
    options
}

fn lines(ops: &[Op]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for op in ops {
        serde_json::to_writer(&mut lines, op)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// `O_NOFOLLOW` of Linux on the supported architectures.
const O_NOFOLLOW: i32 = nix::fcntl::OFlag::O_NOFOLLOW.bits();
/// The shortest file that is rewritten.
const MIN_REWRITE: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::block::Block;
    use crate::history::SessionFacts;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("aifo-web-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn operations_are_read_again_up_to_a_damaged_line() {
        let directory = directory("journal");
        let path = directory.join("x.jsonl");
        let ops = [
            Op::Facts(SessionFacts { id: "x".to_owned(), ..SessionFacts::default() }),
            Op::Put(1, Block::Text { thought: false, text: "a\nb".to_owned() }),
            Op::Text(1, 1, "\u{2028}c".to_owned()),
        ];
        {
            let (mut journal, read) = Journal::open(&path).unwrap();
            assert_eq!(read, []);
            journal.append(&ops).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let whole = fs::read(&path).unwrap();
        for cut in (0..whole.len()).rev() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, read) = Journal::open(&path).unwrap();
            assert_eq!(read, ops[..read.len()], "cut at {cut}");
            journal.append(&ops[2..]).unwrap();
            let (_, again) = Journal::open(&path).unwrap();
            assert_eq!(again.len(), read.len() + 1, "appended after a cut at {cut}");
        }
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.rewrite(&ops[..1]).unwrap();
        journal.append(&ops[1..2]).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1, ops[..2]);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = directory("link");
        let (target, link) = (directory.join("target"), directory.join("x.jsonl"));
        fs::write(&target, "secret").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(Journal::open(&link).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "secret");
        fs::remove_dir_all(directory).unwrap();
    }
}
