//! References, HEAD and index of the workspace's repository, put back as files with git's locks.
//!
//! git is never run there: it would run hooks, filters and monitors that the workspace configures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use aifo_workspace::{IndexEntry, Object, Tree, index_entries};
use nix::fcntl::{RenameFlags, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::error::HistoryError;
use crate::git::Store;
use crate::git_objects::{has_object, repository_path};
use crate::path::{join, parent};
use crate::scope::{MAX_FILE, in_repository};
use crate::version::{BlobId, Objects, Version};

/// A repository at one time: references and other covered files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repository {
    /// Each reference's id, as text.
    references: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Other files: HEAD, the index, the state of a merge or rebase.
    files: BTreeMap<Vec<u8>, RepositoryFile>,
    /// git cannot read the file of packed references.
    is_damaged: bool,
}

/// A change of a reference, or of another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryStep {
    /// Relative to the repository.
    pub(crate) path: Vec<u8>,
    now: Option<Content>,
    to: Option<Content>,
}

impl RepositoryStep {
    /// Returns whether the file goes.
    pub(crate) fn removes(&self) -> bool {
        self.to.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Reference(Vec<u8>),
    File(RepositoryFile),
}

/// A file, compared by what it means.
#[derive(Clone, Copy, Debug)]
struct RepositoryFile {
    content: BlobId,
    /// Of an index that of its entries: git rewrites it whenever it has looked at the workspace.
    meaning: BlobId,
}

impl RepositoryFile {
    fn of(path: &[u8], content: &[u8]) -> Self {
        let id = BlobId::of(content);
        let entries = if path == INDEX { index_entries(content) } else { None };
        let meaning = entries.map_or(id, |entries| {
            let entry = |entry: &IndexEntry| {
                let IndexEntry { path, mode, id, stage } = entry;
                let head = format!("{mode:o} {stage} {} ", path.len());
                [head.as_bytes(), path, id].concat()
            };
            BlobId::of(&entries.iter().flat_map(entry).collect::<Vec<u8>>())
        });
        RepositoryFile { content: id, meaning }
    }
}

impl PartialEq for RepositoryFile {
    fn eq(&self, other: &Self) -> bool {
        self.meaning == other.meaning
    }
}

impl Eq for RepositoryFile {}

const INDEX: &[u8] = b"index";

/// The undo of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositoryPlan {
    pub(crate) steps: Vec<RepositoryStep>,
    /// Paths that stay, with the reasons.
    pub(crate) kept: Vec<(Vec<u8>, &'static str)>,
}

impl Repository {
    /// Reads it from a checkpoint.
    pub(crate) fn of(objects: &Objects, store: &Store) -> Result<Self, HistoryError> {
        let files = objects.iter().filter_map(|(path, version)| {
            let Version::File { content, .. } = version else { return None };
            Some((in_repository(path)?.to_vec(), *content))
        });
        let mut files: BTreeMap<Vec<u8>, BlobId> = files.collect();
        let is_loose = |path: &[u8]| path.starts_with(b"refs/");
        let contents = store.contents(&files.values().copied().collect())?;
        let mut references = BTreeMap::new();
        let mut is_damaged = false;
        if let Some(packed) = files.remove(&b"packed-refs"[..]).and_then(|id| contents.get(&id)) {
            references.extend(packed_references(packed));
            is_damaged = has_foreign_lines(packed);
        }
        let loose: Vec<Vec<u8>> = files.keys().filter(|path| is_loose(path)).cloned().collect();
        for path in loose {
            if let Some(content) = files.remove(&path).and_then(|id| contents.get(&id)) {
                references.insert(path, content.trim_ascii().to_vec());
            }
        }
        let file = |(path, id): (Vec<u8>, BlobId)| {
            let file = RepositoryFile::of(&path, contents.get(&id)?);
            Some((path, file))
        };
        let files = files.into_iter().filter_map(file).collect();
        Ok(Repository { references, files, is_damaged })
    }

    fn contents(&self) -> BTreeMap<&Vec<u8>, Content> {
        let references =
            self.references.iter().map(|(path, id)| (path, Content::Reference(id.clone())));
        let files = self.files.iter().map(|(path, id)| (path, Content::File(*id)));
        references.chain(files).collect()
    }
}

/// Plans what goes back from `after` to `before`; only what is now as after.
pub(crate) fn plan(
    before: &Repository,
    after: &Repository,
    now: &Repository,
    tree: &Tree,
) -> RepositoryPlan {
    let mut plan = RepositoryPlan::default();
    if now.is_damaged && !before.is_damaged {
        plan.kept.push((b"packed-refs".to_vec(), "it is damaged: git needs it removed"));
    }
    let [before, after, now] = [before, after, now].map(Repository::contents);
    let paths: BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).copied().collect();
    let changed = paths.into_iter().filter(|path| before.get(path) != after.get(path));
    let has_tables = !matches!(tree.object(&repository_path(b"reftable")), Object::Missing);
    for path in changed {
        let [before, after, now] = [before.get(path), after.get(path), now.get(path)];
        if now == before {
            continue;
        }
        let missing = |content: Option<&Content>| match content {
            Some(Content::Reference(id)) => !has_object(tree, id),
            _ => false,
        };
        let why = match () {
            () if has_tables => Some("the repository has its references in tables"),
            () if now != after => Some("it was changed again later"),
            () if missing(before) => Some("its commit is gone"),
            () => None,
        };
        match why {
            Some(why) => plan.kept.push((path.clone(), why)),
            None => plan.steps.push(RepositoryStep {
                path: path.clone(),
                now: now.cloned(),
                to: before.cloned(),
            }),
        }
    }
    plan
}

impl RepositoryPlan {
    /// Carries it out. Returns the paths that were put back; what fails is kept.
    pub(crate) fn run(&mut self, tree: &Tree, store: &Store) -> Result<Vec<Vec<u8>>, HistoryError> {
        let ids = self.steps.iter().filter_map(|step| match step.to {
            Some(Content::File(file)) => Some(file.content),
            _ => None,
        });
        let contents = store.contents(&ids.collect())?;
        let mut done = Vec::new();
        // What goes makes room for what comes. References first: HEAD and index of a branch that is not there would be worse.
        let mut steps = std::mem::take(&mut self.steps);
        steps.sort_by_key(|step| (!step.path.starts_with(b"refs/"), step.to.is_some()));
        for step in steps {
            let bytes = match &step.to {
                Some(Content::Reference(id)) => Some([id.as_slice(), b"\n"].concat()),
                Some(Content::File(file)) => contents.get(&file.content).cloned(),
                None => None,
            };
            let is_reference =
                matches!(step.now.as_ref().or(step.to.as_ref()), Some(Content::Reference(_)));
            let put = match (&bytes, is_reference) {
                (Some(bytes), _) => locked(tree, &step, Some(bytes)),
                (None, true) => {
                    remove_packed(tree, &step.path).and_then(|()| locked(tree, &step, None))
                }
                (None, false) => locked(tree, &step, None),
            };
            match put {
                Ok(()) => {
                    if bytes.is_none() {
                        remove_sequence(tree, &step.path);
                    }
                    done.push(step.path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.kept.push((step.path, "another git holds its lock"));
                }
                Err(_) => self.kept.push((step.path, "it has changed, or could not be written")),
            }
        }
        Ok(done)
    }
}

/// Replaces or removes a file under its lock, if it is as `step.now` says.
fn locked(tree: &Tree, step: &RepositoryStep, bytes: Option<&[u8]>) -> io::Result<()> {
    let path = repository_path(&step.path);
    make_directories(tree, &step.path)?;
    if step.path.starts_with(b"refs/") && bytes.is_some() {
        remove_empty_directories(tree, &step.path);
    }
    let (directory, name) = tree.open_parent(&path)?;
    let lock_name = [name.as_bytes(), b".lock"].concat();
    let lock_name = std::ffi::OsStr::from_bytes(&lock_name);
    let at = |name: &std::ffi::OsStr| {
        PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name)
    };
    let mut lock =
        OpenOptions::new().write(true).create_new(true).mode(0o644).open(at(lock_name))?;
    let unlock = || {
        let _ = unlinkat(&directory, lock_name, UnlinkatFlags::NoRemoveDir);
    };
    if !is_now(tree, step) {
        unlock();
        return Err(io::Error::other("it has changed"));
    }
    let done = match bytes {
        Some(bytes) => lock.write_all(bytes).and_then(|()| {
            Ok(renameat2(
                &directory,
                lock_name,
                &directory,
                name.as_os_str(),
                RenameFlags::empty(),
            )?)
        }),
        None => {
            let removed = unlinkat(&directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir);
            unlock();
            match removed {
                // It was only packed.
                Err(nix::errno::Errno::ENOENT) => Ok(()),
                removed => Ok(removed?),
            }
        }
    };
    if done.is_err() {
        unlock();
    }
    done
}

/// Removes a directory that deeper references have left.
fn remove_empty_directories(tree: &Tree, path: &[u8]) {
    let at = repository_path(path);
    if !matches!(tree.object(&at), Object::Directory(_)) {
        return;
    }
    for name in tree.names(&at).unwrap_or_default() {
        remove_empty_directories(tree, &join(path, name.as_bytes()));
    }
    if let Ok((directory, name)) = tree.open_parent(&at) {
        // One that has a file stays, and the reference with it.
        let _ = unlinkat(&directory, name.as_os_str(), UnlinkatFlags::RemoveDir);
    }
}

/// Removes the directory of a rebase or other sequence with its last file: git takes it for one that goes on.
fn remove_sequence(tree: &Tree, path: &[u8]) {
    let mut at = path;
    let is_sequence = [&b"rebase-merge/"[..], b"rebase-apply/", b"sequencer/"]
        .iter()
        .any(|it| path.starts_with(it));
    while let Some(above) = parent(at).filter(|above| is_sequence && !above.is_empty()) {
        let Ok((directory, name)) = tree.open_parent(&repository_path(above)) else { return };
        if unlinkat(&directory, name.as_os_str(), UnlinkatFlags::RemoveDir).is_err() {
            return;
        }
        at = above;
    }
}

/// Returns whether the repository still has what the plan saw.
fn is_now(tree: &Tree, step: &RepositoryStep) -> bool {
    let file = read(tree, &step.path);
    match &step.now {
        None => file.is_none() && !packed(tree).contains_key(&step.path),
        Some(Content::File(expected)) => {
            file.is_some_and(|content| RepositoryFile::of(&step.path, &content) == *expected)
        }
        Some(Content::Reference(id)) => {
            let loose = file.map(|content| content.trim_ascii().to_vec());
            let found = loose.or_else(|| packed(tree).remove(&step.path));
            // A removed one is no longer packed by now.
            found.as_ref().is_none_or(|found| found == id)
        }
    }
}

/// Takes a reference out of the packed ones, under their lock.
fn remove_packed(tree: &Tree, reference: &[u8]) -> io::Result<()> {
    let Some(content) = read(tree, b"packed-refs") else { return Ok(()) };
    if !packed_references(&content).any(|(name, _)| name == reference) {
        return Ok(());
    }
    let (mut kept, mut is_removed) = (Vec::with_capacity(content.len()), false);
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let names_it = line.trim_ascii_end().split(|byte| *byte == b' ').nth(1) == Some(reference);
        // A line with ^ is the commit of the tag before it.
        is_removed = match line.first() {
            Some(b'^') => is_removed,
            _ => !line.starts_with(b"#") && names_it,
        };
        if !is_removed {
            kept.extend_from_slice(line);
        }
    }
    let now = Some(Content::File(RepositoryFile::of(b"packed-refs", &content)));
    let step = RepositoryStep { path: b"packed-refs".to_vec(), now, to: None };
    locked(tree, &step, Some(&kept))
}

fn packed(tree: &Tree) -> BTreeMap<Vec<u8>, Vec<u8>> {
    read(tree, b"packed-refs")
        .map(|content| packed_references(&content).collect())
        .unwrap_or_default()
}

/// Returns the references of a `packed-refs` file.
fn packed_references(content: &[u8]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    content.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ');
        let (id, name) = (words.next()?, words.next()?);
        (name.starts_with(b"refs/") && words.next().is_none()).then(|| (name.to_vec(), id.to_vec()))
    })
}

/// Returns whether git cannot read a file of packed references.
fn has_foreign_lines(content: &[u8]) -> bool {
    let lines = content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let own = lines.clone().filter(|line| matches!(line.first(), Some(b'#' | b'^'))).count();
    own + packed_references(content).count() != lines.count()
}

/// Creates the missing directories of a reference, whose branch may have been the last one there.
fn make_directories(tree: &Tree, path: &[u8]) -> io::Result<()> {
    for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        let directory = repository_path(path.get(..at).unwrap_or_default());
        if matches!(tree.object(&directory), Object::Missing) {
            let (above, name) = tree.open_parent(&directory)?;
            mkdirat(&above, name.as_os_str(), Mode::from_bits_truncate(0o755))?;
        }
    }
    Ok(())
}

fn read(tree: &Tree, path: &[u8]) -> Option<Vec<u8>> {
    tree.read(&repository_path(path), MAX_FILE)
}
