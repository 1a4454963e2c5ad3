//! The stream of a result: lines that describe the branches, an empty line, and a pack in chunks.
//!
//! A chunk is its length as four bytes, big-endian, and its bytes. An empty one is the end; a byte after it is 1 if the
//! sender had all of it, so a stream that was cut is found.

use std::io::{BufRead, ErrorKind, Read, Write};

use super::object_id::{ObjectFormat, ObjectId};
use crate::error::SyncError;

/// The lines before the pack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: ObjectFormat,
    /// The session branch, then further ones. Without one there is no pack.
    pub(crate) branches: Vec<Branch>,
    /// Commits at which the history ends.
    pub(crate) shallow: Vec<ObjectId>,
    /// Lines for the user.
    pub(crate) notes: Vec<String>,
    pub(crate) push: PushState,
}

/// The pod branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) tip: ObjectId,
    /// True if its last commit has the uncommitted files.
    pub(crate) has_uncommitted: bool,
    /// Its name in the pod, with escapes.
    pub(crate) name: String,
}

/// The outcome of the pod's push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PushState {
    /// It was not asked to, or has nothing to push.
    #[default]
    None,
    /// It has pushed the branch to this URL.
    Pushed(String),
    /// It failed, for this reason.
    Failed(String),
}

const VERSION: &str = "aifo-result 1";
const MAX_LINE: u64 = 4096;
/// The session branch, and twenty more.
pub(crate) const MAX_BRANCHES: usize = 21;
pub(crate) const MAX_SHALLOW: usize = 10_000;
pub(crate) const MAX_NOTES: usize = 100;
const CHUNK: usize = 64 << 10;

impl Header {
    pub(crate) fn write(&self, mut out: impl Write) -> Result<(), SyncError> {
        let mut text = format!("{VERSION}\nformat {}\n", self.format.name());
        let mut line = |key: &str, value: &str| {
            let value: String = value.chars().take(1000).collect();
            text += &format!("{key} {}\n", aifo_types::escape_line(&value));
        };
        for Branch { tip, has_uncommitted, name } in &self.branches {
            let kind = if *has_uncommitted { "uncommitted" } else { "committed" };
            line("branch", &format!("{tip} {kind} {name}"));
        }
        self.shallow.iter().for_each(|id| line("shallow", id.as_str()));
        self.notes.iter().take(MAX_NOTES).for_each(|note| line("note", note));
        match &self.push {
            PushState::None => {}
            PushState::Pushed(url) => line("pushed", url),
            PushState::Failed(why) => line("unpushed", why),
        }
        text.push('\n');
        Ok(out.write_all(text.as_bytes())?)
    }

    /// Reads the lines of an untrusted sender.
    pub(crate) fn read(mut from: impl BufRead) -> Result<Self, SyncError> {
        const MALFORMED: SyncError = SyncError::Malformed("it has an invalid line");
        let mut header = Header::default();
        if next_line(&mut from)? != VERSION {
            return Err(SyncError::Malformed("it is not one of this version"));
        }
        loop {
            let line = next_line(&mut from)?;
            if line.is_empty() {
                break;
            }
            let (key, value) = line.split_once(' ').ok_or(MALFORMED)?;
            let id = |text: &str| ObjectId::parse(text.as_bytes()).ok_or(MALFORMED);
            match key {
                "format" => header.format = ObjectFormat::parse(value).ok_or(MALFORMED)?,
                "branch" => {
                    let mut words = value.splitn(3, ' ');
                    let mut word = || words.next().ok_or(MALFORMED);
                    header.branches.push(Branch {
                        tip: id(word()?)?,
                        has_uncommitted: word()? == "uncommitted",
                        name: word()?.to_owned(),
                    });
                }
                "shallow" => header.shallow.push(id(value)?),
                "note" => header.notes.push(value.to_owned()),
                "pushed" => header.push = PushState::Pushed(value.to_owned()),
                "unpushed" => header.push = PushState::Failed(value.to_owned()),
                _ => return Err(MALFORMED),
            }
            for (count, limit, of) in [
                (header.branches.len(), MAX_BRANCHES, "branches"),
                (header.shallow.len(), MAX_SHALLOW, "ends of its history"),
                (header.notes.len(), MAX_NOTES, "notes"),
            ] {
                if count > limit {
                    return Err(SyncError::StreamLimit { limit: limit as u64, of });
                }
            }
        }
        let mut ids = header.branches.iter().map(|it| &it.tip).chain(&header.shallow);
        if ids.any(|id| id.format() != header.format) {
            return Err(SyncError::Malformed("its objects have different formats"));
        }
        Ok(header)
    }
}

fn next_line(from: &mut impl BufRead) -> Result<String, SyncError> {
    let mut line = Vec::new();
    from.take(MAX_LINE).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => {}
        Some(_) if line.len() as u64 + 1 == MAX_LINE => {
            return Err(SyncError::Malformed("it has a long line"));
        }
        _ => return Err(SyncError::Truncated),
    }
    String::from_utf8(line).map_err(|_| SyncError::Malformed("it has an invalid line"))
}

/// Writes a pack as chunks. Its end is that of [`write_end`].
pub(crate) fn write_chunks(mut pack: impl Read, mut out: impl Write) -> Result<(), SyncError> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match pack.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        out.write_all(&u32::try_from(count).unwrap_or(0).to_be_bytes())?;
        out.write_all(chunk.get(..count).unwrap_or_default())?;
    }
}

/// Writes the end of chunks, and whether the pack is whole.
pub(crate) fn write_end(mut out: impl Write, is_whole: bool) -> Result<(), SyncError> {
    out.write_all(&[0, 0, 0, 0, u8::from(is_whole)])?;
    Ok(out.flush()?)
}

/// Copies the pack of chunks, of at most `limit` bytes.
pub(crate) fn read_chunks(
    mut from: impl Read,
    mut out: impl Write,
    limit: u64,
) -> Result<(), SyncError> {
    let mut left = limit;
    let mut chunk = vec![0; CHUNK];
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length).map_err(truncated)?;
        let length = u64::from(u32::from_be_bytes(length));
        if length == 0 {
            let mut is_whole = [0];
            from.read_exact(&mut is_whole).map_err(truncated)?;
            return if is_whole == [1] { Ok(()) } else { Err(SyncError::Truncated) };
        }
        let too_long = SyncError::StreamLimit { limit, of: "bytes" };
        left = left.checked_sub(length).ok_or(too_long)?;
        let bytes = usize::try_from(length).ok().and_then(|length| chunk.get_mut(..length));
        let bytes = bytes.ok_or(SyncError::Malformed("it has a large chunk"))?;
        from.read_exact(bytes).map_err(truncated)?;
        out.write_all(bytes)?;
    }
}

fn truncated(error: std::io::Error) -> SyncError {
    match error.kind() {
        ErrorKind::UnexpectedEof => SyncError::Truncated,
        _ => error.into(),
    }
}
