//! Copies settings and conversations of the user into a new state.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use aifo_host::{Beneath, Found};
use serde_json::Value;

use crate::agents::{MAX_SETTINGS_BYTES, StateFile};

/// The result for one path.
pub(super) enum Imported {
    /// There is no such file, or none of its keys is copied.
    Nothing,
    /// All of it.
    Whole(PathBuf),
    /// The allowed keys, without these.
    Part(PathBuf, Vec<String>),
    /// Nothing, for this reason.
    Skipped(PathBuf, &'static str),
}

/// The fate of a file that the state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It stays.
    Kept,
    /// Its allowed part is replaced.
    Refreshed,
}

/// Copies the allowed part of a settings file.
pub(super) fn import_settings(
    file: &StateFile,
    users: &Beneath,
    own: &Beneath,
    existing: Existing,
) -> io::Result<Imported> {
    let path = file.from.clone();
    let bytes = match users.read(&path, MAX_SETTINGS_BYTES) {
        Found::Missing => return Ok(Imported::Nothing),
        Found::Rejected(why) => return Ok(Imported::Skipped(path, why)),
        Found::File(bytes, _) => bytes,
    };
    let has_own = own.stamp(&file.to).is_some();
    if has_own && existing == Existing::Kept {
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
    let mut copy = selected.clone();
    if has_own {
        let Found::File(bytes, _) = own.read(&file.to, MAX_SETTINGS_BYTES) else {
            return Ok(Imported::Skipped(path, "has an unusual file in its place in the state"));
        };
        let of_agent = file.format.parse(&bytes).unwrap_or_default();
        copy = file.replace(&of_agent, &selected);
    }
    own.replace(&file.to, &file.format.render(&copy), None)?;
    let left_out = left_out(&object, &selected);
    Ok(match left_out.is_empty() {
        true => Imported::Whole(path),
        false => Imported::Part(path, left_out),
    })
}

/// Returns the keys of an object that its selected part lacks: the names of MCP servers, and of tables the
/// highest that is lacking.
fn left_out(object: &Value, selected: &Value) -> Vec<String> {
    let mut keys = Vec::new();
    lacking(object, Some(selected), "", &mut keys);
    keys
}

fn lacking(value: &Value, selected: Option<&Value>, path: &str, keys: &mut Vec<String>) {
    if selected == Some(value) {
        return;
    }
    let has_servers = path.to_ascii_lowercase().replace('_', "").ends_with("mcpservers");
    match value.as_object().filter(|_| selected.is_some() || has_servers) {
        Some(object) => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                lacking(value, selected.and_then(|it| it.get(name)), &path, keys);
            }
        }
        None => keys.push(path.to_owned()),
    }
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
            Imported::Part(path, left_out) => {
                let shown: Vec<_> = left_out.iter().take(MAX_KEYS).map(String::as_str).collect();
                let more = match left_out.len().saturating_sub(MAX_KEYS) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                Some(format!("~/{} (without {}{more})", path.display(), shown.join(", ")))
            }
            Imported::Nothing | Imported::Skipped(..) => None,
        }
    }

    /// Returns the warning for a file that is not copied.
    pub(super) fn skipped(&self) -> Option<String> {
        let Imported::Skipped(path, why) = self else { return None };
        Some(format!("'~/{}' is not imported: it {why}", path.display()))
    }
}

/// Left out keys that a line names.
const MAX_KEYS: usize = 8;
const MAX_CONVERSATIONS: u64 = 50_000;
const MAX_CONVERSATION_BYTES: u64 = 1 << 30;
