//! Reads checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::Checkpoint;
use crate::contents::Contents;
use crate::error::HistoryError;
use crate::git::Store;
use crate::names::Name;
use crate::path::{Path, is_below, is_selected, shown};
use crate::scope::Uncovered;
use crate::version::{BlobId, Objects, Version};

impl Store {
    /// Returns the objects that a checkpoint has.
    pub(crate) fn objects(&self, commit: &str) -> Result<Objects, HistoryError> {
        let text = self.text(["ls-tree", "-r", "--full-tree", commit])?;
        let mut objects = Objects::new();
        let (mut modes, mut directories, mut uncovered) = (Vec::new(), Vec::new(), Vec::new());
        for line in text.lines() {
            let (git_mode, id, name) =
                parse_line(line).ok_or(HistoryError::Damaged("a tree cannot be read"))?;
            match name {
                Name::Object(path) => {
                    let version = match git_mode {
                        "120000" => Version::Link { content: id },
                        "100755" => Version::File { content: id, mode: 0o755 },
                        _ => Version::File { content: id, mode: 0o644 },
                    };
                    objects.insert(path.into(), version);
                }
                Name::FileMode(path) => modes.push((path, id)),
                Name::Directory(path) => directories.push((path, id)),
                Name::Uncovered(path) => uncovered.push((path, id)),
            }
        }
        let marks = modes.iter().chain(&directories).chain(&uncovered);
        let texts = self.contents(&marks.map(|(_, id)| *id).collect())?;
        let text = |id: &BlobId| texts.get(id).and_then(|text| std::str::from_utf8(text).ok());
        let permissions = |id: &BlobId| {
            let number = text(id).and_then(|text| u16::from_str_radix(text, 8).ok());
            number.ok_or(HistoryError::Damaged("permissions cannot be read"))
        };
        for (path, id) in modes {
            if let Some(Version::File { mode, .. }) = objects.get_mut(path.as_slice()) {
                *mode = permissions(&id)?;
            }
        }
        for (path, id) in directories {
            objects.insert(path.into(), Version::Directory { mode: permissions(&id)? });
        }
        for (path, id) in uncovered {
            let why = text(&id).and_then(Uncovered::parse);
            let why = why.ok_or(HistoryError::Damaged("an unknown reason"))?;
            objects.insert(path.into(), Version::Uncovered(why));
        }
        Ok(objects)
    }

    /// Returns contents. Errors: one is missing.
    pub(crate) fn contents(
        &self,
        ids: &BTreeSet<BlobId>,
    ) -> Result<BTreeMap<BlobId, Vec<u8>>, HistoryError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut contents = Contents::start(self)?;
        let read = |id: &BlobId| match contents.read(*id, u64::MAX) {
            Ok(Some(content)) => Ok((*id, content)),
            _ => Err(HistoryError::Damaged("a content is missing")),
        };
        ids.iter().map(read).collect()
    }

    /// Returns a session's checkpoints, each with the files that it changed. Directories and permissions are left out.
    pub fn changes(
        &self,
        session: &str,
    ) -> Result<Vec<(Checkpoint, Vec<ChangedFile>)>, HistoryError> {
        let checkpoints = self.checkpoints(session)?;
        let reference = crate::checkpoint::reference(session);
        let words = [
            "-c",
            MAX_TEXT,
            "log",
            "--first-parent",
            "--reverse",
            "--no-renames",
            "--raw",
            "--numstat",
            "--format=>%H",
            &reference,
            "--",
        ];
        let text = self.text(words)?;
        let mut files: BTreeMap<&str, Vec<ChangedFile>> = BTreeMap::new();
        for commit in text.split('>').skip(1) {
            let (id, rest) = commit.split_once('\n').unwrap_or((commit, ""));
            files.insert(id, changed_files(rest)?);
        }
        let with_files = |checkpoint: Checkpoint| {
            let files = files.remove(checkpoint.id.as_str()).unwrap_or_default();
            (checkpoint, files)
        };
        Ok(checkpoints.into_iter().skip(1).map(with_files).collect())
    }

    /// Returns the files that differ between a session's start and its last checkpoint.
    pub fn total(&self, session: &str) -> Result<Vec<ChangedFile>, HistoryError> {
        let checkpoints = self.checkpoints(session)?;
        let (Some(first), Some(last)) = (checkpoints.first(), checkpoints.last()) else {
            return Ok(Vec::new());
        };
        let words = ["-c", MAX_TEXT, "diff-tree", "-r", "--no-renames", "--raw", "--numstat"];
        let words = words.into_iter().chain([first.id.as_str(), &last.id]);
        let text = self.text(words)?;
        changed_files(&text)
    }

    /// Returns the objects that a session does not cover at its end.
    pub fn uncovered(&self, session: &str) -> Result<Vec<(Path, Uncovered)>, HistoryError> {
        let last = self.checkpoints(session)?.pop();
        let objects = last.map(|last| self.objects(&last.id)).transpose()?.unwrap_or_default();
        let uncovered = objects.into_iter().filter_map(|(path, version)| match version {
            Version::Uncovered(why) => Some((path, why)),
            _ => None,
        });
        Ok(uncovered.collect())
    }

    /// Returns the changes of these files and directories, or of all, as a patch for a terminal.
    pub fn patch(&self, checkpoint: &Checkpoint, paths: &[String]) -> Result<String, HistoryError> {
        let words = [
            "-c",
            MAX_TEXT,
            "diff-tree",
            "-r",
            "-p",
            "--no-renames",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
        ];
        let parent = format!("{}^", checkpoint.id);
        let patch = self.run(words.into_iter().chain([parent.as_str(), &checkpoint.id]), "")?;
        Ok(with_paths(&String::from_utf8_lossy(&patch), paths))
    }
}

/// The time to compare larger texts is not bounded, so they count as binary.
const MAX_TEXT: &str = "core.bigFileThreshold=512k";

/// A file that a checkpoint changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path.
    pub path: Path,
    /// The kind of change.
    pub kind: ChangeKind,
    /// Lines added and removed; `None` for other contents than text.
    pub lines: Option<(u64, u64)>,
}

/// Parses git's `--raw --numstat` of one commit.
fn changed_files(text: &str) -> Result<Vec<ChangedFile>, HistoryError> {
    let damaged = || HistoryError::Damaged("a change cannot be read");
    let mut kinds: BTreeMap<&str, ChangeKind> = BTreeMap::new();
    let (mut files, mut lost, mut hidden) = (Vec::<ChangedFile>::new(), Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with(':') {
            let (meta, name) = line.split_once('\t').ok_or_else(damaged)?;
            kinds.insert(
                name,
                match meta.rsplit(' ').next() {
                    Some("A") => ChangeKind::Added,
                    Some("D") => ChangeKind::Deleted,
                    _ => ChangeKind::Modified,
                },
            );
            continue;
        }
        let mut fields = line.splitn(3, '\t');
        let (added, removed) = (fields.next(), fields.next());
        let name = fields.next().ok_or_else(damaged)?;
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let kind = kinds.get(name).copied().unwrap_or(ChangeKind::Modified);
        let lines = number(added).zip(number(removed));
        match (Name::decode(name).ok_or_else(damaged)?, kind) {
            (Name::Object(path), _) => files.push(ChangedFile { path: path.into(), kind, lines }),
            (Name::Uncovered(path), ChangeKind::Deleted) => lost.push(Path::from(path)),
            (Name::Uncovered(path), ChangeKind::Added) => hidden.push(Path::from(path)),
            _ => {}
        }
    }
    // One that is covered from now on is there.
    lost.retain(|path| files.iter().all(|file| file.path != *path));
    // Files there are not deleted, but no longer looked at.
    let hides = |hidden: &Path, file: &ChangedFile| {
        file.kind == ChangeKind::Deleted && (file.path == *hidden || is_below(&file.path, hidden))
    };
    hidden.retain(|path| files.iter().any(|file| hides(path, file)));
    files.retain(|file| !hidden.iter().any(|path| hides(path, file)));
    let hidden = hidden.into_iter();
    files.extend(hidden.map(|path| ChangedFile { path, kind: ChangeKind::Hidden, lines: None }));
    let lost = lost.into_iter();
    files.extend(lost.map(|path| ChangedFile { path, kind: ChangeKind::Lost, lines: None }));
    Ok(files)
}

/// Returns git's patch with the workspace's names, limited to these paths.
fn with_paths(patch: &str, paths: &[String]) -> String {
    let mut text = String::with_capacity(patch.len());
    let mut is_shown = false;
    for line in patch.lines() {
        let decoded = |name: &str| match name
            .split_once('/')
            .map(|(side, name)| (side, Name::decode(name)))
        {
            Some((side, Some(Name::Object(path)))) => Some(format!("{side}/{}", shown(&path))),
            _ => (name == "/dev/null").then(|| name.to_owned()),
        };
        let renamed = |words: &[&str]| -> Option<String> {
            let words = words.iter().map(|word| match word.starts_with(['a', 'b', '/']) {
                true if word.contains('/') => decoded(word),
                _ => Some((*word).to_owned()),
            });
            Some(words.collect::<Option<Vec<_>>>()?.join(" "))
        };
        let words: Vec<&str> = line.split(' ').collect();
        let is_head =
            ["diff --git ", "--- a/", "--- /dev/null", "+++ b/", "+++ /dev/null", "Binary files "];
        let head =
            is_head.iter().any(|head| line.starts_with(head)).then(|| renamed(&words)).flatten();
        if line.starts_with("diff --git ") {
            let name = words.last().and_then(|word| word.split_once('/'));
            let name = name.and_then(|(_, name)| Name::decode(name));
            is_shown = match name {
                Some(Name::Object(path)) => head.is_some() && is_selected(&path, paths),
                _ => false,
            };
        }
        if is_shown {
            // A file must not colour a line as another one.
            text.push_str(&head.as_deref().unwrap_or(line).replace('\x1b', "\\u{1b}"));
            text.push('\n');
        }
    }
    text
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// Its content was changed.
    Modified,
    /// It was deleted.
    Deleted,
    /// It, or something in it, was covered and no longer is.
    Hidden,
    /// It was deleted, and its content was not covered: no undo brings it back.
    Lost,
}

fn parse_line(line: &str) -> Option<(&str, BlobId, Name)> {
    let (meta, name) = line.split_once('\t')?;
    let mut meta = meta.split(' ');
    let (git_mode, _kind, id) = (meta.next()?, meta.next()?, meta.next()?);
    Some((git_mode, BlobId::parse(id)?, Name::decode(name)?))
}
