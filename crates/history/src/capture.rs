//! Finds what has changed in a workspace, by the kernel's reports or by a scan.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use aifo_workspace::{Object, Rules, Tree};
use nix::errno::Errno;

use crate::commit::Commit;
use crate::directory::{CACHE_TAG, is_cache, is_small};
use crate::error::HistoryError;
use crate::file::{self, ATTEMPTS, Content, FileRead, MAX_SMALL};
use crate::path::{Path, as_path, is_below, join, name, parent};
use crate::scope::{
    MAX_IGNORED_OBJECTS, Uncovered, covers_in_repository, directory_rule, file_rule, in_repository,
    is_own,
};
use crate::version::{BlobId, Objects, Version};
use crate::watch::{Added, Report, Watch};

/// The state of a workspace, as far as it was seen.
pub(crate) struct Capture {
    tree: Tree,
    with_secrets: bool,
    known: BTreeMap<Path, Known>,
    directories: BTreeMap<Path, Directory>,
    /// Contents that the store has from an earlier session; only for the first scan.
    stored: HashSet<BlobId>,
    /// `None` if the kernel cannot watch so many directories: then every checkpoint scans.
    watch: Option<Watch>,
    reported: BTreeSet<Path>,
    replaced: BTreeSet<Path>,
    /// Large files, which a scan looks at last: a call that does not wait changes fewer others then.
    deferred: Option<Vec<Path>>,
    /// Number of the scan, to find what is gone.
    scan: u32,
    needs_scan: bool,
}

struct Known {
    version: Version,
    /// Of its `stat`; another value means another version.
    stamp: u64,
    /// It was read so soon after its last change that a later one can have the same times.
    is_recent: bool,
    scan: u32,
}

struct Directory {
    rules: Rules,
    /// The outermost ignored directory around it.
    ignored: Option<Path>,
}

/// A larger workspace is not covered.
const MAX_OBJECTS: usize = 1_000_000;

impl Capture {
    /// `objects` are those of the checkpoint on which the next one builds, `stored` contents that the store has.
    pub(crate) fn new(
        workspace: &std::path::Path,
        with_secrets: bool,
        objects: Objects,
        stored: HashSet<BlobId>,
    ) -> Result<Self, HistoryError> {
        let system = |source| HistoryError::System { action: "open the workspace", source };
        let known = |(path, version)| (path, Known { version, stamp: 0, is_recent: true, scan: 0 });
        Ok(Capture {
            tree: Tree::open(workspace).map_err(system)?,
            with_secrets,
            known: objects.into_iter().map(known).collect(),
            directories: BTreeMap::new(),
            stored,
            watch: Watch::new().ok(),
            reported: BTreeSet::new(),
            replaced: BTreeSet::new(),
            deferred: None,
            scan: 0,
            needs_scan: true,
        })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Returns what was seen.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&Path, Version)> {
        self.known.iter().map(|(path, known)| (path, known.version))
    }

    pub(crate) fn version(&self, path: &[u8]) -> Option<Version> {
        self.known.get(path).map(|known| known.version)
    }

    /// Takes the kernel's reports; returns whether there were any.
    pub(crate) fn take_reports(&mut self) -> bool {
        let reports = self.watch.as_mut().map(Watch::take).unwrap_or_default();
        let any = !reports.is_empty();
        for report in reports {
            match report {
                Report::Changed(path) => {
                    self.reported.insert(path);
                }
                Report::Replaced(path) => {
                    self.replaced.insert(path);
                }
                Report::Lost => self.needs_scan = true,
            }
        }
        any
    }

    /// Returns whether something may have changed since the last update.
    pub(crate) fn may_have_changed(&self) -> bool {
        self.needs_scan
            || self.watch.is_none()
            || !self.reported.is_empty()
            || !self.replaced.is_empty()
    }

    /// Looks at everything at the next update, also at what the kernel has not reported.
    pub(crate) fn scan_next(&mut self) {
        self.needs_scan = true;
    }

    /// Finds the changes since the last update.
    pub(crate) fn update(&mut self, commit: &mut Commit<'_>) -> Result<(), HistoryError> {
        self.take_reports();
        let reported = std::mem::take(&mut self.reported);
        let replaced = std::mem::take(&mut self.replaced);
        if std::mem::take(&mut self.needs_scan) || self.watch.is_none() {
            self.scan_below(b"", commit)?;
            self.stored = HashSet::new();
            return Ok(());
        }
        for path in replaced {
            self.scan_below(&path, commit)?;
        }
        for path in reported {
            if let Some(found) = self.look(&path, commit)? {
                self.scan_below(&found, commit)?;
            }
        }
        Ok(())
    }

    /// Looks at an object and all below it.
    fn scan_below(&mut self, root: &[u8], commit: &mut Commit<'_>) -> Result<(), HistoryError> {
        self.scan = self.scan.wrapping_add(1);
        let scan = self.scan;
        let mut pending = vec![Path::from(root)];
        self.deferred = Some(Vec::new());
        while let Some(path) = pending.pop() {
            self.look(&path, commit)?;
            if !self.directories.contains_key(&path) {
                continue;
            }
            match self.tree.names(as_path(&path)) {
                Ok(names) => pending.extend(names.iter().map(|name| join(&path, name.as_bytes()))),
                Err(_) => self.leave(&path, Uncovered::Unreadable, commit)?,
            }
            if self.known.len() > MAX_OBJECTS {
                return Err(HistoryError::Unknown("the workspace has too many files".to_owned()));
            }
        }
        for path in self.deferred.take().unwrap_or_default() {
            self.look(&path, commit)?;
        }
        let gone: Vec<Path> = self
            .subtree(root)
            .filter(|(_, known)| known.scan != scan)
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            self.forget(&path, commit)?;
        }
        Ok(())
    }

    fn subtree(&self, root: &[u8]) -> impl Iterator<Item = (&Path, &Known)> {
        self.known
            .range(Path::from(root)..)
            .take_while(move |(path, _)| path.starts_with(root))
            .filter(move |(path, _)| ***path == *root || is_below(path, root))
    }

    /// Looks at one object. Returns its path if it is a directory that was not known.
    fn look(&mut self, path: &[u8], commit: &mut Commit<'_>) -> Result<Option<Path>, HistoryError> {
        if !self.is_considered(path) {
            return Ok(None);
        }
        match self.tree.object(as_path(path)) {
            Object::Missing | Object::Behind => self.forget(path, commit)?,
            Object::Directory(metadata) => return self.directory(path, &metadata, commit),
            Object::File(metadata) => self.file(path, &metadata, commit)?,
            Object::Link(target) => {
                let version = Version::Link { content: BlobId::of(&target) };
                self.set(path, version, 0, Some(&Content::Small(target)), commit)?;
            }
            Object::Other => self.leave(path, Uncovered::Special, commit)?,
        }
        Ok(None)
    }

    /// Returns whether a path may be covered: its directory is, and it is neither aifo's own nor an uncovered part
    /// of the repository.
    fn is_considered(&self, path: &[u8]) -> bool {
        parent(path).is_none_or(|above| self.directories.contains_key(above))
            && !is_own(path)
            && in_repository(path).is_none_or(covers_in_repository)
    }

    fn directory(
        &mut self,
        path: &[u8],
        metadata: &Metadata,
        commit: &mut Commit<'_>,
    ) -> Result<Option<Path>, HistoryError> {
        let ignored = self.ignored(path, true);
        let rule = directory_rule(path, ignored.is_some()).or_else(|| is_cache(&self.tree, path));
        let is_outermost = ignored.as_deref() == Some(path);
        let rule = rule.or_else(|| {
            (is_outermost && !is_small(&self.tree, path)).then_some(Uncovered::Ignored)
        });
        if let Some(why) = rule {
            self.leave(path, why, commit)?;
            return Ok(None);
        }
        let Ok(opened) = self.tree.open_directory(as_path(path)) else {
            self.leave(path, Uncovered::Unreadable, commit)?;
            return Ok(None);
        };
        let added = match &mut self.watch {
            None => Added::New,
            Some(watch) => match watch.add(path, opened.as_fd()) {
                Ok(added) => added,
                Err(Errno::ENOENT | Errno::ENOTDIR) => {
                    self.forget(path, commit)?;
                    return Ok(None);
                }
                Err(_) => {
                    self.watch = None;
                    Added::New
                }
            },
        };
        let version = Version::Directory { mode: file::mode(metadata) };
        if self.version(path).is_some_and(|known| !known.is_directory()) {
            self.forget(path, commit)?;
        }
        self.set(path, version, 0, None, commit)?;
        let is_new = !self.directories.contains_key(path) || added == Added::New;
        if is_new {
            let rules = match parent(path).and_then(|above| self.directories.get(above)) {
                _ if in_repository(path).is_some() => Rules::default(),
                Some(above) => above.rules.below(&self.tree, as_path(path)),
                None => Rules::of_root(&self.tree),
            };
            self.directories.insert(path.into(), Directory { rules, ignored });
        }
        Ok(is_new.then(|| path.into()))
    }

    /// Returns the outermost ignored directory that a path is or lies in. An ignored file is its own.
    fn ignored(&self, path: &[u8], is_directory: bool) -> Option<Path> {
        let above = self.directories.get(parent(path)?)?;
        if above.ignored.is_some() {
            return above.ignored.clone();
        }
        let is_ignored =
            in_repository(path).is_none() && above.rules.ignores(as_path(path), is_directory);
        is_ignored.then(|| path.into())
    }

    fn file(
        &mut self,
        path: &[u8],
        metadata: &Metadata,
        commit: &mut Commit<'_>,
    ) -> Result<(), HistoryError> {
        let stamp = file::stamp(metadata);
        if let Some(known) = self.known.get_mut(path)
            && known.stamp == stamp
            && !known.is_recent
        {
            known.scan = self.scan;
            return Ok(());
        }
        if name(path) == CACHE_TAG && !self.known.contains_key(path) {
            // The mark of a cache comes after its directory.
            let above = parent(path).unwrap_or_default();
            if is_cache(&self.tree, above).is_some() {
                return self.leave(above, Uncovered::Cache, commit);
            }
        }
        let ignored = self.ignored(path, false);
        if let Some(why) = file_rule(path, metadata.len(), ignored.is_some(), self.with_secrets) {
            return self.leave(path, why, commit);
        }
        if let Some(deferred) = self.deferred.as_mut().filter(|_| metadata.len() > MAX_SMALL) {
            deferred.push(path.into());
            return Ok(());
        }
        let is_new = !self.known.contains_key(path);
        for _ in 0..ATTEMPTS {
            let Some(read) = file::read(&self.tree, path) else { break };
            let FileRead { id, content, metadata } = read;
            let version = Version::File { content: id, mode: file::mode(&metadata) };
            if !self.set(path, version, file::stamp(&metadata), Some(&content), commit)? {
                continue;
            }
            if let Some(known) = self.known.get_mut(path) {
                known.is_recent = file::is_recent(&metadata);
            }
            // An ignored directory can grow after it was found small.
            return match ignored.filter(|ignored| is_new && **ignored != *path) {
                Some(outermost) if !self.is_still_small(&outermost) => {
                    self.leave(&outermost, Uncovered::Ignored, commit)
                }
                _ => Ok(()),
            };
        }
        // It has gone meanwhile, it cannot be read, or it is written all the time.
        match self.tree.object(as_path(path)) {
            Object::Missing | Object::Behind => self.forget(path, commit),
            _ => self.leave(path, Uncovered::Unreadable, commit),
        }
    }

    fn is_still_small(&self, outermost: &[u8]) -> bool {
        // Its size is bounded by that of each file.
        self.subtree(outermost).take(MAX_IGNORED_OBJECTS + 1).count() <= MAX_IGNORED_OBJECTS
    }

    fn leave(
        &mut self,
        path: &[u8],
        why: Uncovered,
        commit: &mut Commit<'_>,
    ) -> Result<(), HistoryError> {
        if !matches!(self.version(path), Some(Version::Uncovered(_))) {
            self.forget(path, commit)?;
        }
        self.set(path, Version::Uncovered(why), 0, None, commit).map(drop)
    }

    /// Notes a version. Returns false if another content was stored, as its file was written meanwhile.
    fn set(
        &mut self,
        path: &[u8],
        mut version: Version,
        stamp: u64,
        content: Option<&Content>,
        commit: &mut Commit<'_>,
    ) -> Result<bool, HistoryError> {
        let mut is_whole = true;
        let before = self.version(path);
        if before.is_some_and(|before| before.is_directory() != version.is_directory()) {
            self.forget(path, commit)?;
        }
        if before != Some(version) {
            let is_stored = version.content().is_some_and(|id| {
                self.stored.contains(&id) || before.and_then(Version::content) == Some(id)
            });
            let content = content.filter(|_| !is_stored);
            let stored = commit.change(path, self.version(path), Some(version), content)?;
            if let (Version::File { content, .. }, Some(id)) = (&mut version, stored)
                && *content != id
            {
                (*content, is_whole) = (id, false);
            }
        }
        let known = Known { version, stamp, is_recent: false, scan: self.scan };
        self.known.insert(path.into(), known);
        Ok(is_whole)
    }

    /// Notes that there is nothing at a path.
    fn forget(&mut self, path: &[u8], commit: &mut Commit<'_>) -> Result<(), HistoryError> {
        let gone: Vec<Path> = self.subtree(path).map(|(path, _)| path.clone()).collect();
        for path in gone.iter().rev() {
            if let Some(known) = self.known.remove(path) {
                commit.change(path, Some(known.version), None, None)?;
            }
            self.directories.remove(path);
        }
        if let Some(watch) = &mut self.watch {
            watch.remove(path);
        }
        Ok(())
    }
}
