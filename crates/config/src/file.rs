//! Reads configuration files and finds the keys in them.

use std::io::{ErrorKind, Read};
use std::path::Path;

use aifo_process::{RootDirectory, open_regular};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::error::ConfigError;
use crate::item::{FileOwner, FileText, Item};
use crate::paths::{WORKSPACE_FILE, user_file_path};
use crate::permissions::rules_instead;

/// A configuration file.
#[derive(Debug)]
pub struct File {
    text: FileText,
}

/// The table of a file.
pub struct FileTable<'a> {
    text: &'a FileText,
    table: DeTable<'a>,
}

impl File {
    /// Reads a file; `None` if it does not exist. A file named `.aifo.toml` is a workspace's.
    pub fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let unreadable =
            |error: std::io::Error| ConfigError::in_file(path, format!("cannot be read: {error}"));
        let file = match open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                return Err(ConfigError::in_file(path, "leads out of the workspace"));
            }
            opened => opened.map_err(unreadable)?,
        };
        let mut text = String::new();
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(ConfigError::in_file(path, "is larger than 1 MiB"));
        }
        Ok(Some(File::new(path, text)))
    }

    /// Reads the user's file; `None` if it does not exist.
    pub fn of_user() -> Result<Option<Self>, ConfigError> {
        Ok(user_file_path().map(|path| File::read(&path)).transpose()?.flatten())
    }

    /// Takes the text of a file, which is parsed when it is applied.
    pub fn new(path: &Path, text: String) -> Self {
        let owner = owner_of(path);
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        File { text: FileText { path: path.to_owned(), text, owner, lines } }
    }

    /// Parses the file, but not its values.
    pub fn table(&self) -> Result<FileTable<'_>, ConfigError> {
        let parsed = DeTable::parse(&self.text.text);
        let parsed = parsed
            .map_err(|error| self.text.malformed(&error, error.span().unwrap_or_default()))?;
        Ok(FileTable { text: &self.text, table: parsed.into_inner() })
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.text.text
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.text.path
    }

    /// Returns whether it is a workspace file, which can only restrict.
    pub fn is_workspaces(&self) -> bool {
        self.text.owner == FileOwner::Workspace
    }

    /// Errors: the file is in `workspace`, where an agent could extend its own permissions.
    pub fn check_outside(&self, workspace: &Path) -> Result<(), ConfigError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !real(&self.text.path).starts_with(real(workspace)) {
            return Ok(());
        }
        let what = format!(
            "is in the workspace '{}', where an agent could extend its own permissions",
            workspace.display()
        );
        let hint = "choose a smaller workspace with --workspace, or move the file and set \
                    XDG_CONFIG_HOME";
        Err(ConfigError::in_file(&self.text.path, what).hint(hint))
    }
}

impl FileTable<'_> {
    /// Returns the values in the order of `keys`. Errors: a key is none of them.
    pub fn items(&self, keys: &[&'static str]) -> Result<Vec<(usize, Item<'_>)>, ConfigError> {
        items(self.text, &self.table, keys)
    }

    /// Errors: there is a table of earlier versions, with the rules to write instead.
    pub fn check_permissions(&self) -> Result<(), ConfigError> {
        let Some((name, _)) = self.table.get_key_value("permissions") else { return Ok(()) };
        let table = toml::from_str(&self.text.text).ok();
        let table: toml::Table = table.unwrap_or_default();
        let old = table.get("permissions").and_then(toml::Value::as_table);
        let rules = old.map(rules_instead).filter(|rules| !rules.is_empty());
        let error = ConfigError::new(
            &self.text.source(name.span()),
            "there is no [permissions] any more: rules are about requests, too",
        );
        Err(error.hint(match rules {
            Some(rules) => {
                format!("write instead, at the end of the file:\n\n{}", rules.trim_end())
            }
            None => "remove it".to_owned(),
        }))
    }

    /// Returns the tables below `table`, such as `[kind.rust]`.
    pub fn tables(&self, table: &'static str) -> Vec<Item<'_>> {
        let below = self.table.get(table).and_then(|table| table.get_ref().as_table());
        let rows = below.into_iter().flatten();
        rows.map(|(name, value)| Item::of_file(self.text, table, name.get_ref(), value)).collect()
    }
}

/// Returns the values of a table in the order of `keys`. NAME in a key matches any word. Errors: a
/// key is none of them.
pub(crate) fn items<'a>(
    text: &'a FileText,
    table: &'a DeTable<'a>,
    keys: &[&'static str],
) -> Result<Vec<(usize, Item<'a>)>, ConfigError> {
    let mut found = Vec::new();
    let all: Vec<Candidate> =
        keys.iter().enumerate().map(|(index, key)| Candidate { index, key, rest: key }).collect();
    collect(text, table, &all, "", &mut found)?;
    found.sort_by_key(|(index, _)| *index);
    Ok(found)
}

/// A key, and the part of it that is still to match.
#[derive(Clone, Copy)]
struct Candidate {
    index: usize,
    key: &'static str,
    rest: &'static str,
}

impl Candidate {
    fn split(&self) -> (&'static str, &'static str) {
        self.rest.split_once('.').unwrap_or((self.rest, ""))
    }
}

fn collect<'a>(
    text: &'a FileText,
    table: &'a DeTable<'a>,
    candidates: &[Candidate],
    name: &'a str,
    found: &mut Vec<(usize, Item<'a>)>,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        let word: &'a str = key.get_ref();
        let mut name = name;
        let mut below = Vec::new();
        for candidate in candidates {
            let (first, rest) = candidate.split();
            if first == NAME {
                name = word;
            } else if first != word {
                continue;
            }
            below.push(Candidate { rest, ..*candidate });
        }
        let exact = below.iter().find(|candidate| candidate.rest.is_empty());
        if let Some(exact) = exact {
            found.push((exact.index, Item::of_file(text, exact.key, name, value)));
        } else if below.is_empty() {
            let mut known: Vec<&str> = Vec::new();
            for (key, _) in candidates.iter().map(Candidate::split) {
                if !key.is_empty() && !known.contains(&key) {
                    known.push(key);
                }
            }
            return Err(text.unknown_key(key.span(), word, &known, section(candidates, word)));
        } else {
            collect(text, sub_table(text, candidates, word, value)?, &below, name, found)?;
        }
    }
    Ok(())
}

/// Returns the table below these candidates that has a key of this name, if it is only one.
fn section(candidates: &[Candidate], word: &str) -> Option<&'static str> {
    let has_word =
        |candidate: &&Candidate| candidate.rest.rsplit_once('.').is_some_and(|it| it.1 == word);
    let mut keys = candidates.iter().filter(has_word).filter_map(|it| it.key.rsplit_once('.'));
    let (section, _) = keys.next()?;
    let is_only = keys.next().is_none() && !section.contains(NAME);
    is_only.then_some(section)
}

fn sub_table<'a>(
    text: &FileText,
    candidates: &[Candidate],
    word: &str,
    value: &'a Spanned<DeValue<'a>>,
) -> Result<&'a DeTable<'a>, ConfigError> {
    value.get_ref().as_table().ok_or_else(|| {
        let hint = match section(candidates, word) {
            Some(section) => format!("'{word}' as a value belongs in [{section}]"),
            None => format!("use [{word}] and its keys"),
        };
        ConfigError::new(&text.source(value.span()), format!("'{word}' is not a table")).hint(hint)
    })
}

/// Opens a file. An agent can put a FIFO or a link to a file of this machine in the place of a workspace's.
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    match (owner_of(path), path.parent(), path.file_name()) {
        (FileOwner::Workspace, Some(workspace), Some(name)) => {
            RootDirectory::open(workspace)?.open_regular(Path::new(name))
        }
        _ => open_regular(path),
    }
}

fn owner_of(path: &Path) -> FileOwner {
    match path.file_name() {
        Some(name) if name == WORKSPACE_FILE => FileOwner::Workspace,
        _ => FileOwner::User,
    }
}

/// Stands for any word in a key.
const NAME: &str = "NAME";
/// More than a user writes, and fast to read at every start.
const MAX_BYTES: u64 = 1 << 20;
