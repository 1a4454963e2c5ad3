//! The version of a path in a workspace.

use std::path::Path;

use aifo_workspace::{Object, Tree};

use crate::entry::{Entry, digest_of};
use crate::merge::Here;

/// The version of a path.
#[derive(Debug)]
pub(crate) enum Version {
    Missing,
    Entry(Entry),
    Other,
}

impl Version {
    /// Returns the version of a path, and reads a file for it.
    pub(crate) fn of(tree: &Tree, path: &Path) -> Self {
        match tree.object(path) {
            Object::Missing => Version::Missing,
            Object::Link(target) => Version::Entry(Entry::Link(target)),
            Object::Directory(_) | Object::Behind | Object::Other => Version::Other,
            Object::File(_) => {
                let entry = tree.open_file(path).and_then(|(file, is_executable)| {
                    Ok(Entry::file(digest_of(file)?, is_executable))
                });
                entry.map_or(Version::Other, Version::Entry)
            }
        }
    }

    pub(crate) fn here(&self) -> Here<'_> {
        match self {
            Version::Missing => Here::Missing,
            Version::Entry(entry) => Here::Entry(entry),
            Version::Other => Here::Other,
        }
    }
}
