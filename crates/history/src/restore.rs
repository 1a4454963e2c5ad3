//! Carries out an undo in a workspace.
//!
//! Every path is resolved beneath the workspace, and no link is followed. An object is exchanged for the new one and
//! compared then: what another process writes meanwhile is found, put back and kept.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use aifo_process::{Links, RootDirectory};
use aifo_workspace::{Object, Tree};
use nix::fcntl::{OFlag, RenameFlags, renameat2};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use crate::contents::Contents;
use crate::error::HistoryError;
use crate::file;
use crate::git::Store;
use crate::path::as_path;
use crate::path::{Path, join, parent};
use crate::scope::{MAX_FILE, Uncovered};
use crate::undo::{Kept, Plan, Step, Target};
use crate::version::{BlobId, Version};

/// The result of an undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) restored: Vec<Path>,
    pub(crate) removed: Vec<Path>,
    pub(crate) merged: Vec<Path>,
    pub(crate) kept: Vec<(Path, Kept)>,
}

impl Done {
    pub(crate) fn has_changed(&self) -> bool {
        !(self.restored.is_empty() && self.removed.is_empty() && self.merged.is_empty())
    }
}

/// A workspace in which objects are put back.
pub(crate) struct Restore<'a> {
    store: &'a Store,
    tree: &'a Tree,
    contents: Contents,
    done: Done,
}

/// The ending of a file with conflicts, beside the one that stays.
const CONFLICT: &str = ".undo-conflict";

impl<'a> Restore<'a> {
    /// Errors: a content that the plan needs is missing.
    pub(crate) fn new(store: &'a Store, tree: &'a Tree, plan: &Plan) -> Result<Self, HistoryError> {
        let mut ids = BTreeSet::new();
        for step in &plan.steps {
            match step.to {
                Target::Version(version) => ids.extend(version.and_then(Version::content)),
                Target::Merge { base, before, .. } => {
                    ids.extend([base, before]);
                    ids.extend(step.now.and_then(Version::content));
                }
            }
        }
        let contents = Contents::open(store, &ids)?;
        let done = Done { kept: plan.kept.clone(), ..Done::default() };
        Ok(Restore { store, tree, contents, done })
    }

    /// Carries the plan out. A step that fails is kept, and the others follow.
    pub(crate) fn run(mut self, plan: &Plan) -> Done {
        let becomes_directory =
            |step: &&Step| matches!(step.to, Target::Version(Some(Version::Directory { .. })));
        let is_directory = |step: &&Step| step.now.is_some_and(Version::is_directory);
        let goes = |step: &&Step| {
            let changes_kind = is_directory(step) != becomes_directory(step);
            step.now.is_some() && (step.to == Target::Version(None) || changes_kind)
        };
        // First what goes, from the leaves; then directories from the root, files, and permissions.
        let mut failed: BTreeSet<&Path> = BTreeSet::new();
        for directories in [false, true] {
            for step in
                plan.steps.iter().rev().filter(goes).filter(|it| is_directory(it) == directories)
            {
                match self.remove(step) {
                    Ok(()) if step.to == Target::Version(None) => {
                        self.done.removed.push(step.path.clone());
                    }
                    Ok(()) => {}
                    Err(_) => {
                        failed.insert(&step.path);
                        let why = if directories { Kept::NotEmpty } else { Kept::Failed };
                        self.done.kept.push((step.path.clone(), why));
                    }
                }
            }
        }
        let comes = |step: &&Step| step.to != Target::Version(None) && !failed.contains(&step.path);
        for step in plan.steps.iter().filter(comes).filter(becomes_directory) {
            match self.directory(step) {
                Ok(()) => self.done.restored.push(step.path.clone()),
                Err(_) => self.done.kept.push((step.path.clone(), Kept::Failed)),
            }
        }
        for step in plan.steps.iter().filter(comes).filter(|step| !becomes_directory(step)) {
            let gone = goes(&step);
            match self.content(step, if gone { None } else { step.now }) {
                Ok(()) => {}
                Err(_) => self.done.kept.push((step.path.clone(), Kept::Failed)),
            }
        }
        for step in plan.steps.iter().rev().filter(comes).filter(becomes_directory) {
            if let Target::Version(Some(Version::Directory { mode })) = step.to {
                // Reported above if it is not there.
                let _ = self.set_directory_mode(&step.path, mode);
            }
        }
        self.done
    }

    fn remove(&mut self, step: &Step) -> io::Result<()> {
        let (directory, name) = self.tree.open_parent(as_path(&step.path))?;
        if step.now.is_some_and(Version::is_directory) {
            // Only an empty one goes.
            return Ok(unlinkat(&directory, name.as_os_str(), UnlinkatFlags::RemoveDir)?);
        }
        let aside = aside();
        rename(&directory, &name, &aside, RenameFlags::RENAME_NOREPLACE)?;
        if self.is_still(&step.path, &aside, step.now) {
            return Ok(unlinkat(&directory, aside.as_os_str(), UnlinkatFlags::NoRemoveDir)?);
        }
        if rename(&directory, &aside, &name, RenameFlags::RENAME_NOREPLACE).is_err() {
            // By now something still newer has the name.
            unlinkat(&directory, aside.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
        }
        Err(changed())
    }

    fn directory(&mut self, step: &Step) -> io::Result<()> {
        let Target::Version(Some(Version::Directory { mode })) = step.to else { return Ok(()) };
        if !matches!(self.tree.object(as_path(&step.path)), Object::Directory(_)) {
            let (directory, name) = self.tree.open_parent(as_path(&step.path))?;
            mkdirat(&directory, name.as_os_str(), Mode::S_IRWXU)?;
        }
        // Permissions to write come before the files, others after them.
        self.set_directory_mode(&step.path, mode | 0o700)
    }

    fn set_directory_mode(&self, path: &[u8], mode: u16) -> io::Result<()> {
        let directory = self.tree.open_directory(as_path(path))?;
        File::from(directory).set_permissions(Permissions::from_mode(mode.into()))
    }

    fn content(&mut self, step: &Step, now: Option<Version>) -> io::Result<()> {
        match step.to {
            Target::Version(Some(Version::File { content, mode })) => {
                let is_same =
                    matches!(now, Some(Version::File { content: same, .. }) if same == content);
                if !is_same || !self.set_file_mode(step, mode)? {
                    self.place_file(&step.path, now, Source::Stored(content), mode)?;
                }
                self.done.restored.push(step.path.clone());
            }
            Target::Version(Some(Version::Link { content })) => {
                let target = self.contents.read(content, MAX_TARGET)?.ok_or_else(changed)?;
                let (directory, name) = self.tree.open_parent(as_path(&step.path))?;
                let aside = aside();
                symlinkat(OsStr::from_bytes(&target), &directory, aside.as_os_str())?;
                let placed = self.exchange(&step.path, (&directory, &name, &aside), now);
                if placed.is_err() {
                    // Only the new link is there.
                    let _ = unlinkat(&directory, aside.as_os_str(), UnlinkatFlags::NoRemoveDir);
                }
                placed?;
                self.done.restored.push(step.path.clone());
            }
            Target::Version(_) => {}
            Target::Merge { base, before, mode } => return self.merge(step, (base, before), mode),
        }
        Ok(())
    }

    fn merge(
        &mut self,
        step: &Step,
        (base, before): (BlobId, BlobId),
        mode: u16,
    ) -> io::Result<()> {
        let Some(Version::File { content: now, .. }) = step.now else { return Err(changed()) };
        let mut texts = Vec::new();
        for id in [now, base, before] {
            texts.extend(self.contents.read(id, MAX_MERGED)?);
        }
        match merge_texts(self.store, &texts)? {
            Merged::Clean(bytes) => {
                self.place_file(&step.path, step.now, Source::New(&bytes), mode)?;
                self.done.merged.push(step.path.clone());
            }
            Merged::Conflicts(bytes) => {
                let beside = [&step.path[..], CONFLICT.as_bytes()].concat();
                self.place_file(&beside, None, Source::New(&bytes), mode & 0o666)?;
                self.done.kept.push((step.path.clone(), Kept::Conflict));
            }
            Merged::Impossible => self.done.kept.push((step.path.clone(), Kept::Newer)),
        }
        Ok(())
    }

    /// Sets the permissions of a file. Returns false if it has another name, which may be outside of the workspace.
    fn set_file_mode(&self, step: &Step, mode: u16) -> io::Result<bool> {
        let (directory, name) = self.tree.open_parent(as_path(&step.path))?;
        let opened = RootDirectory::from(directory);
        let file =
            opened.open_beneath(name.as_ref(), OFlag::O_PATH | OFlag::O_NOFOLLOW, Links::Reject)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let metadata = File::from(file.try_clone()?).metadata()?;
        if !metadata.is_file() {
            return Err(changed());
        }
        if metadata.nlink() > 1 {
            return Ok(false);
        }
        fs::set_permissions(path, Permissions::from_mode(mode.into())).map(|()| true)
    }

    /// Puts a file in the place of `now`.
    fn place_file(
        &mut self,
        path: &[u8],
        now: Option<Version>,
        source: Source<'_>,
        mode: u16,
    ) -> io::Result<()> {
        let (directory, name) = self.tree.open_parent(as_path(path))?;
        let aside = aside();
        let at = descriptor(&directory).join(&aside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&at)?;
        let written = match source {
            Source::New(bytes) => file.write_all(bytes),
            Source::Stored(id) => self.contents.copy(id, &mut file),
        };
        let written = written
            .and_then(|()| file.set_permissions(Permissions::from_mode(mode.into())))
            .and_then(|()| self.exchange(path, (&directory, &name, &aside), now));
        if written.is_err() {
            // Only what is still the new file is there.
            let _ = unlinkat(&directory, aside.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    /// Moves the object `aside` to its name. The old one goes only if it is `now`.
    fn exchange(
        &self,
        path: &[u8],
        (directory, name, aside): (&OwnedFd, &OsStr, &OsStr),
        now: Option<Version>,
    ) -> io::Result<()> {
        if now.is_none() {
            return rename(directory, aside, name, RenameFlags::RENAME_NOREPLACE);
        }
        let placed = self.version_in(path, aside);
        let exchange = || rename(directory, aside, name, RenameFlags::RENAME_EXCHANGE);
        exchange()?;
        if !self.is_still(path, aside, now) {
            exchange()?;
            if self.version_in(path, aside) != placed {
                // It was changed again in between: the last one stays.
                exchange()?;
            }
            return Err(changed());
        }
        Ok(unlinkat(directory, aside, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Returns whether a name beside a path has this version, also once it was read to its end: whoever has it open can
    /// write to it meanwhile.
    fn is_still(&self, path: &[u8], name: &OsStr, version: Option<Version>) -> bool {
        let at = join(parent(path).unwrap_or_default(), name.as_bytes());
        let stamp = || match self.tree.object(as_path(&at)) {
            Object::File(metadata) => Some(file::stamp(&metadata)),
            _ => None,
        };
        let before = stamp();
        self.version_in(path, name) == version && stamp() == before
    }

    /// Returns the version that a name beside a path has.
    fn version_in(&self, path: &[u8], name: &OsStr) -> Option<Version> {
        version(self.tree, &join(parent(path).unwrap_or_default(), name.as_bytes()))
    }
}

/// Returns the version that a path has now.
pub(crate) fn version(tree: &Tree, path: &[u8]) -> Option<Version> {
    match tree.object(as_path(path)) {
        Object::Link(target) => Some(Version::Link { content: BlobId::of(&target) }),
        Object::Directory(metadata) => Some(Version::Directory { mode: file::mode(&metadata) }),
        Object::File(metadata) => {
            let (opened, _) = tree.open_file(as_path(path)).ok()?;
            let length = opened.metadata().ok()?.len();
            if length > MAX_FILE {
                return Some(Version::Uncovered(Uncovered::Large));
            }
            let content = BlobId::of_file(&opened, length).ok()?;
            Some(Version::File { content, mode: file::mode(&metadata) })
        }
        Object::Missing | Object::Behind | Object::Other => None,
    }
}

/// The content of a new file.
enum Source<'a> {
    New(&'a [u8]),
    Stored(BlobId),
}

enum Merged {
    Clean(Vec<u8>),
    /// With marks in the text.
    Conflicts(Vec<u8>),
    /// The contents are no text.
    Impossible,
}

/// Bytes of a text that is merged. The time for larger ones is not bounded.
const MAX_MERGED: u64 = 512 << 10;
/// Bytes of a link's target; the kernel's limit.
const MAX_TARGET: u64 = 4096;

/// Merges two changes by git, in the store. `texts` are those now, after and before the call, without what is too large.
fn merge_texts(store: &Store, texts: &[Vec<u8>]) -> io::Result<Merged> {
    let [now, base, before] = texts else { return Ok(Merged::Impossible) };
    let scratch = tempfile::Builder::new().prefix("merge-").tempdir_in(store.directory())?;
    let path = |name: &str| scratch.path().join(name);
    for (name, content) in [("now", now), ("base", base), ("before", before)] {
        fs::write(path(name), content)?;
    }
    let mut command = store.command(["merge-file", "--stdout"]);
    for label in ["now", "after the call", "before the call"] {
        command.args(["-L", label]);
    }
    let output = command.args([path("now"), path("base"), path("before")]).output()?;
    Ok(match output.status.code() {
        Some(0) => Merged::Clean(output.stdout),
        Some(1..=127) => Merged::Conflicts(output.stdout),
        _ => Merged::Impossible,
    })
}

fn rename(directory: &OwnedFd, from: &OsStr, to: &OsStr, flags: RenameFlags) -> io::Result<()> {
    Ok(renameat2(directory, from, directory, to, flags)?)
}

/// Returns a free name for a file of aifo's own.
fn aside() -> OsString {
    let bits = aifo_process::random_bits().unwrap_or_default();
    let number = bits.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    OsString::from(format!(".aifo-undo-{number:016x}"))
}

fn descriptor(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

fn changed() -> io::Error {
    io::Error::other("it has changed meanwhile")
}
