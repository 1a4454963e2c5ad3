//! Applies the changes of a pod to the workspace.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use aifo_workspace::{Tree, file_mode};
use tempfile::TempDir;

use crate::entry::{Entry, Hashing};
use crate::error::SyncError;
use crate::limits::UploadLimits;
use crate::merge::{ConflictKind, Merge, merge};
use crate::path::{PathError, WorkspacePath};
use crate::snapshot::{Snapshot, escaped};
use crate::stream::{Record, StreamReader};
use crate::version::Version;

/// A workspace that gets the changes of a pod.
#[derive(Debug)]
pub struct Fetch {
    tree: Tree,
    /// The name of the directory below [`CONFLICTS`].
    name: String,
    limits: UploadLimits,
}

/// The directory in the workspace root with the pod versions of files that changed on both sides.
pub const CONFLICTS: &str = ".aifo-conflicts";

/// The result of a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchReport {
    /// Files and links that were created or replaced.
    pub written: usize,
    /// Those that were removed.
    pub removed: usize,
    /// Paths that changed on both sides. The workspace version stays.
    pub conflicts: Vec<Conflict>,
    /// Paths that were not applied.
    pub rejected: Vec<Rejection>,
    /// The number of further ones.
    pub more_rejected: usize,
}

/// A path that changed on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path.
    pub path: WorkspacePath,
    /// The changes.
    pub kind: ConflictKind,
    /// The path of the pod version; `None` if there is none.
    pub copy: Option<PathBuf>,
}

/// A path of the pod that was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The path, with escapes.
    pub path: String,
    /// The reason, with escapes.
    pub why: String,
}

impl FetchReport {
    /// Returns whether the pod had no changes.
    pub fn is_empty(&self) -> bool {
        *self == FetchReport::default()
    }

    fn reject(&mut self, path: &[u8], why: impl ToString) {
        if self.rejected.len() < MAX_REJECTED {
            let why = aifo_types::escape_line(&why.to_string());
            self.rejected.push(Rejection { path: escaped(path), why });
        } else {
            self.more_rejected += 1;
        }
    }
}

const MAX_REJECTED: usize = 20;

/// A change that was read completely, but not applied.
struct Change {
    path: WorkspacePath,
    /// `None` for a deletion.
    entry: Option<Entry>,
    staged: PathBuf,
}

impl Fetch {
    /// Opens the workspace. The copies of conflicts are in the directory `name` below [`CONFLICTS`].
    pub fn new(workspace: &Path, name: &str) -> Result<Self, SyncError> {
        let tree = Tree::open(workspace).map_err(SyncError::file("open", workspace))?;
        Ok(Fetch { tree, name: name.to_owned(), limits: UploadLimits::default() })
    }

    /// Sets the limits of the stream.
    pub fn limits(self, limits: UploadLimits) -> Self {
        Fetch { limits, ..self }
    }

    /// Reads the pod's changes to their end, then applies them. `base` gets the versions that both sides have now.
    /// Errors: the stream is cut or invalid; nothing was applied.
    pub fn apply(&self, base: &mut Snapshot, from: impl Read) -> Result<FetchReport, SyncError> {
        let staging = tempfile::Builder::new().prefix(".aifo-fetch-").tempdir_in(self.tree.root());
        let staging = staging.map_err(SyncError::file("write", "."))?;
        let mut report = FetchReport::default();
        let mut changes = self.read(&staging, from, &mut report)?;
        // Deletions first: a directory may replace a file, and a file a directory.
        changes.sort_by_key(|change| change.entry.is_some());
        for change in changes {
            self.apply_one(base, change, &mut report);
        }
        Ok(report)
    }

    fn read(
        &self,
        staging: &TempDir,
        from: impl Read,
        report: &mut FetchReport,
    ) -> Result<Vec<Change>, SyncError> {
        let mut stream = StreamReader::new(from, self.limits.into())?;
        let mut changes = Vec::new();
        while let Some(record) = stream.next()? {
            let staged = staging.path().join(changes.len().to_string());
            let (path, entry) = match record {
                Record::Deleted { path } => (path, Ok(None)),
                Record::Link { path, target } => {
                    let stays =
                        WorkspacePath::parse(&path).is_ok_and(|path| path.keeps_inside(&target));
                    let entry = match stays {
                        true => {
                            symlink(OsStr::from_bytes(&target), &staged)
                                .map_err(SyncError::file("write", "the temporary copy"))?;
                            Ok(Some(Entry::Link(target)))
                        }
                        false => Err(format!(
                            "is a link to '{}', which is absolute or leads out",
                            escaped(&target)
                        )),
                    };
                    (path, entry)
                }
                Record::File { path, is_executable } => {
                    if let Err(why) = WorkspacePath::of_pod(&path) {
                        reject_path(report, &path, why);
                        continue;
                    }
                    let mut options = OpenOptions::new();
                    let file = options.write(true).create_new(true).mode(file_mode(is_executable));
                    let file = file.open(&staged);
                    let file = file.map_err(SyncError::file("write", "the temporary copy"))?;
                    let mut file = Hashing::new(file);
                    let is_whole = stream.content(&mut file)?;
                    if !is_whole {
                        fs::remove_file(&staged)?;
                    }
                    let entry = Entry::file(file.digest(), is_executable);
                    (
                        path,
                        if is_whole { Ok(Some(entry)) } else { Err("cannot be read".to_owned()) },
                    )
                }
                Record::Skipped { path, why } => (path, Err(why)),
                Record::Known { .. } => {
                    return Err(SyncError::Malformed("it has no changes of a pod"));
                }
            };
            match (WorkspacePath::of_pod(&path), entry) {
                (Err(why), _) => {
                    _ = fs::remove_file(&staged);
                    reject_path(report, &path, why);
                }
                (Ok(_), Err(why)) => report.reject(&path, why),
                (Ok(path), Ok(entry)) => changes.push(Change { path, entry, staged }),
            }
        }
        Ok(changes)
    }

    fn apply_one(&self, base: &mut Snapshot, change: Change, report: &mut FetchReport) {
        let Change { path, entry, staged } = change;
        let here = Version::of(&self.tree, path.as_path());
        let decision = merge(base.0.get(&path), here.here(), entry.as_ref());
        let applied = match (&decision, &entry) {
            (Merge::Nothing, _) => Ok(()),
            (Merge::Apply, None) => {
                self.tree.remove(path.as_path()).inspect(|()| report.removed += 1)
            }
            (Merge::Apply, Some(_)) => {
                let replaces = matches!(here, Version::Entry(_));
                self.tree.place(&staged, path.as_path(), replaces).inspect(|()| report.written += 1)
            }
            (Merge::Conflict(kind), _) => {
                let copy = entry.as_ref().map(|entry| self.keep(&staged, &path, entry)).transpose();
                copy.map(|copy| {
                    report.conflicts.push(Conflict { path: path.clone(), kind: *kind, copy });
                })
            }
        };
        match applied {
            Ok(()) => base.set(path, entry),
            // It is applied by the next fetch.
            Err(error) => report.reject(path.as_bytes(), format!("cannot be written: {error}")),
        }
    }

    /// Keeps the pod version of a file below [`CONFLICTS`], beside earlier ones, and returns its path.
    fn keep(&self, staged: &Path, path: &WorkspacePath, entry: &Entry) -> io::Result<PathBuf> {
        let directory = format!("{CONFLICTS}/{}/", self.name);
        // Git does not show the directory.
        let ignore = parsed(format!("{CONFLICTS}/.gitignore").as_bytes())?;
        if matches!(Version::of(&self.tree, ignore.as_path()), Version::Missing) {
            io::Write::write_all(&mut self.tree.create(ignore.as_path(), false)?, b"*\n")?;
        }
        for number in 1..MAX_COPIES {
            let end = if number == 1 { String::new() } else { format!(".{number}") };
            let bytes = [directory.as_bytes(), path.as_bytes(), end.as_bytes()].concat();
            let to = parsed(&bytes)?;
            match Version::of(&self.tree, to.as_path()) {
                Version::Entry(kept) if kept == *entry => return Ok(to.as_path().to_owned()),
                Version::Entry(_) | Version::Other => {}
                Version::Missing => {
                    self.tree.place(staged, to.as_path(), false)?;
                    return Ok(to.as_path().to_owned());
                }
            }
        }
        Err(io::Error::other("there are too many copies of it"))
    }
}

/// Copies of one file that are kept.
const MAX_COPIES: u32 = 100;

fn parsed(path: &[u8]) -> io::Result<WorkspacePath> {
    WorkspacePath::parse(path).map_err(|why| io::Error::other(why.to_string()))
}

fn reject_path(report: &mut FetchReport, path: &[u8], why: PathError) {
    report.reject(path.get(..200).unwrap_or(path), why);
}
