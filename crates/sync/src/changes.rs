//! The changes of a pod workspace.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;

use aifo_workspace::{Object, Tree};

use crate::error::SyncError;
use crate::limits::{UploadLimits, UploadScope};
use crate::scan::{Repository, Scan};
use crate::snapshot::Snapshot;
use crate::stream::{Record, StreamWriter};
use crate::upload::send_entry;
use crate::version::Version;

/// Reads the client's snapshot, and writes the files that differ from it: deletions first. New files that are ignored
/// are not sent, nor those of repositories' directories.
pub fn send_changes(
    workspace: &Path,
    request: impl Read,
    answer: impl Write,
) -> Result<(), SyncError> {
    let tree = Tree::open(workspace).map_err(SyncError::file("open", workspace))?;
    let base = Snapshot::read(request)?;
    let files = UploadLimits::default().files;
    let scan = Scan::of(&tree, UploadScope::Unignored, Repository::Omitted, files)?;
    let mut stream = StreamWriter::new(answer)?;
    let mut changed = BTreeSet::new();
    for (path, entry) in &base.0 {
        let bytes = || path.as_bytes().to_owned();
        match (tree.object(path.as_path()), Version::of(&tree, path.as_path())) {
            (_, Version::Entry(now)) if now == *entry => {}
            (_, Version::Entry(_)) => {
                changed.insert(path);
            }
            // The files of a directory in its place are new.
            (Object::Missing | Object::Directory(_) | Object::Behind, _) => {
                stream.record(&Record::Deleted { path: bytes() })?;
            }
            _ => {
                let why = "cannot be read".to_owned();
                stream.record(&Record::Skipped { path: bytes(), why })?;
            }
        }
    }
    changed.extend(scan.found.keys().filter(|path| !base.0.contains_key(path)));
    for path in changed {
        send_entry(&tree, path, &mut stream)?;
    }
    for (path, why) in &scan.skipped {
        stream.record(&Record::Skipped { path: path.clone(), why: (*why).to_owned() })?;
    }
    stream.finish()
}
