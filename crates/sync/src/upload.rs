//! The upload of a workspace.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use aifo_workspace::{Object, Tree};

use crate::entry::{Entry, Hashing};
use crate::error::SyncError;
use crate::limits::{UploadLimits, UploadScope};
use crate::path::WorkspacePath;
use crate::scan::{Repository, Scan};
use crate::snapshot::{Snapshot, escaped};
use crate::stream::{Record, StreamReader, StreamWriter};

/// The files of an upload.
#[derive(Debug)]
pub struct Upload {
    tree: Tree,
    scan: Scan,
    bytes: u64,
}

impl Upload {
    /// Finds the files. Errors: they are more or larger than the limits, with the largest directories.
    pub fn plan(
        workspace: &Path,
        scope: UploadScope,
        limits: UploadLimits,
    ) -> Result<Self, SyncError> {
        let tree = Tree::open(workspace).map_err(SyncError::file("open", workspace))?;
        let scan = Scan::of(&tree, scope, Repository::Included, limits.files)?;
        let bytes = scan.found.values().flatten().sum();
        let too_large = |limit, of| SyncError::TooLarge { limit, of, largest: largest(&scan) };
        if scan.found.len() as u64 > limits.files {
            return Err(too_large(limits.files, "files"));
        }
        if bytes > limits.bytes {
            return Err(too_large(limits.bytes >> 20, "MiB"));
        }
        Ok(Upload { tree, scan, bytes })
    }

    /// Returns the number of files and links.
    pub fn files(&self) -> usize {
        self.scan.found.len()
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the paths that cannot be copied, and why.
    pub fn skipped(&self) -> impl Iterator<Item = (String, &'static str)> + '_ {
        self.scan.skipped.iter().map(|(path, why)| (escaped(path), *why))
    }

    /// Writes the files, and returns their versions. A file that was removed meanwhile is left out.
    pub fn send(&self, out: impl Write) -> Result<Snapshot, SyncError> {
        let mut stream = StreamWriter::new(out)?;
        let mut snapshot = Snapshot::default();
        for path in self.scan.found.keys() {
            let entry = send_entry(&self.tree, path, &mut stream)?;
            if !path.is_in_repository() {
                snapshot.set(path.clone(), entry);
            }
        }
        stream.finish()?;
        Ok(snapshot)
    }
}

/// Writes one file or link, and returns the version that was written.
pub(crate) fn send_entry(
    tree: &Tree,
    path: &WorkspacePath,
    stream: &mut StreamWriter<impl Write>,
) -> Result<Option<Entry>, SyncError> {
    let bytes = || path.as_bytes().to_owned();
    match tree.object(path.as_path()) {
        Object::Link(target) => {
            stream.record(&Record::Link { path: bytes(), target: target.clone() })?;
            Ok(Some(Entry::Link(target)))
        }
        Object::File(_) => {
            let Ok((file, is_executable)) = tree.open_file(path.as_path()) else {
                let why = "cannot be read".to_owned();
                stream.record(&Record::Skipped { path: bytes(), why })?;
                return Ok(None);
            };
            stream.record(&Record::File { path: bytes(), is_executable })?;
            let mut hashing = Hashing::new(io::sink());
            let is_whole = stream.content(Tee(file, &mut hashing))?;
            Ok(is_whole.then(|| Entry::file(hashing.digest(), is_executable)))
        }
        Object::Missing | Object::Directory(_) | Object::Behind | Object::Other => Ok(None),
    }
}

/// Hashes the bytes that are read.
struct Tee<'a, R, W: Write>(R, &'a mut Hashing<W>);

impl<R: Read, W: Write> Read for Tee<'_, R, W> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(bytes)?;
        self.1.write_all(bytes.get(..count).unwrap_or_default())?;
        Ok(count)
    }
}

/// Writes the files of an upload to an empty directory, or over those of an upload that was cut. Returns their
/// number.
pub fn receive_upload(workspace: &Path, from: impl Read) -> Result<u64, SyncError> {
    let tree = Tree::open(workspace).map_err(SyncError::file("open", workspace))?;
    let mut stream = StreamReader::new(from, UploadLimits::default().into())?;
    let mut count = 0;
    while let Some(record) = stream.next()? {
        let parse = |path: &[u8]| {
            WorkspacePath::parse(path).map_err(|why| SyncError::Path { path: escaped(path), why })
        };
        match record {
            Record::File { path, is_executable } => {
                let path = parse(&path)?;
                let file = tree.create(path.as_path(), is_executable);
                let file = file.map_err(SyncError::file("write", path.as_path()))?;
                if !stream.content(file)? {
                    tree.remove(path.as_path())
                        .map_err(SyncError::file("remove", path.as_path()))?;
                }
            }
            Record::Link { path, target } => {
                let path = parse(&path)?;
                let staging = tempfile::Builder::new().prefix(".aifo-").tempdir_in(tree.root())?;
                let staged = staging.path().join("0");
                let target = OsStr::from_bytes(&target);
                symlink(target, &staged)
                    .and_then(|()| tree.place(&staged, path.as_path(), true))
                    .map_err(SyncError::file("write", path.as_path()))?;
            }
            Record::Skipped { .. } => continue,
            Record::Deleted { .. } | Record::Known { .. } => {
                return Err(SyncError::Malformed("it is not an upload"));
            }
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the largest directories of the root, with sizes.
fn largest(scan: &Scan) -> String {
    let mut sizes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (path, size) in &scan.found {
        if path.names().count() > 1 {
            let name = escaped(path.names().next().unwrap_or_default());
            let sum = sizes.entry(name).or_default();
            *sum = (sum.0 + size.unwrap_or(0), sum.1 + 1);
        }
    }
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let names = sizes
        .iter()
        .take(3)
        .map(|(name, (bytes, files))| format!("'{name}' ({} MiB, {files} files)", bytes >> 20));
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
