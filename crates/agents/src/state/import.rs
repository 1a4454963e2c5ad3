//! Copies settings and conversations of the user into a new state.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use aifo_host::{Beneath, Found};

use crate::agents::StateFile;

/// The result for one path.
pub(super) enum Imported {
    /// There is no such file, or none of its keys is copied.
    Nothing,
    /// All of it.
    Whole(PathBuf),
    /// The allowed keys.
    Part(PathBuf),
    /// Nothing, for this reason.
    Skipped(PathBuf, &'static str),
}

/// Copies the allowed part of a settings file, unless the state has it.
pub(super) fn import_settings(
    file: &StateFile,
    users: &Beneath,
    own: &Beneath,
) -> io::Result<Imported> {
    let path = file.from.clone();
    let bytes = match users.read(&path, MAX_BYTES) {
        Found::Missing => return Ok(Imported::Nothing),
        Found::Rejected(why) => return Ok(Imported::Skipped(path, why)),
        Found::File(bytes, _) => bytes,
    };
    if own.stamp(&file.to).is_some() {
        return Ok(Imported::Nothing);
    }
    if file.is_whole() {
        own.replace(&file.to, &bytes, None)?;
        return Ok(Imported::Whole(path));
    }
    let Some(object) = file.format.parse(&bytes) else {
        return Ok(Imported::Skipped(path, "cannot be parsed"));
    };
    let selected = file.select(&object);
    if selected.as_object().is_none_or(|it| it.is_empty()) {
        return Ok(Imported::Nothing);
    }
    own.replace(&file.to, &file.format.render(&selected), None)?;
    Ok(if selected == object { Imported::Whole(path) } else { Imported::Part(path) })
}

/// Copies the regular files at and below a path that the state does not have.
pub(super) fn import_conversations(
    path: &Path,
    users: &Beneath,
    own: &Beneath,
) -> io::Result<Imported> {
    let mut pending = vec![path.to_owned()];
    let (mut entries, mut bytes, mut copied) = (0_u64, 0_u64, 0_u64);
    while let Some(next) = pending.pop() {
        let Ok(file) = users.open_file(&next) else { continue };
        let metadata = file.metadata()?;
        entries += 1;
        bytes += metadata.len();
        if entries > MAX_CONVERSATIONS || bytes > MAX_CONVERSATION_BYTES {
            return Ok(Imported::Skipped(
                path.to_owned(),
                "is too large, so only a part is copied",
            ));
        }
        if metadata.is_dir() {
            pending.extend(users.entries(&next)?);
        } else if metadata.is_file() && own.stamp(&next).is_none() {
            let mut content = Vec::new();
            file.take(metadata.len()).read_to_end(&mut content)?;
            own.replace(&next, &content, None)?;
            copied += 1;
        }
    }
    Ok(if copied == 0 { Imported::Nothing } else { Imported::Whole(path.to_owned()) })
}

impl Imported {
    /// Returns the words for the line about the import.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Imported::Whole(path) => Some(format!("~/{}", path.display())),
            Imported::Part(path) => Some(format!("~/{} (in part)", path.display())),
            Imported::Nothing | Imported::Skipped(..) => None,
        }
    }

    /// Returns the warning for a file that is not copied.
    pub(super) fn skipped(&self) -> Option<String> {
        let Imported::Skipped(path, why) = self else { return None };
        Some(format!("'~/{}' is not imported: it {why}", path.display()))
    }
}

/// Settings are written by hand.
const MAX_BYTES: u64 = 1 << 20;
const MAX_CONVERSATIONS: u64 = 50_000;
const MAX_CONVERSATION_BYTES: u64 = 1 << 30;
