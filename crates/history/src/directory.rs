//! Directories that are covered or not by what they contain.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use aifo_workspace::{Object, Tree};

use crate::path::{Path, as_path, join};
use crate::scope::{MAX_IGNORED_BYTES, MAX_IGNORED_OBJECTS, Uncovered, directory_rule};

/// The file that marks a cache.
pub(crate) const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// The start of its content.
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Returns whether a directory has the mark of a cache.
pub(crate) fn is_cache(tree: &Tree, path: &[u8]) -> Option<Uncovered> {
    let mut read = Vec::new();
    let (file, _) = tree.open_file(as_path(&join(path, CACHE_TAG))).ok()?;
    file.take(CACHE_SIGNATURE.len() as u64).read_to_end(&mut read).ok()?;
    (read == CACHE_SIGNATURE && !path.is_empty()).then_some(Uncovered::Cache)
}

/// Returns whether an ignored directory is small enough to be covered.
pub(crate) fn is_small(tree: &Tree, path: &[u8]) -> bool {
    let (mut objects, mut bytes) = (0, 0);
    let mut pending = vec![Path::from(path)];
    while let Some(directory) = pending.pop() {
        for name in tree.names(as_path(&directory)).unwrap_or_default() {
            let path = join(&directory, name.as_bytes());
            objects += 1;
            match tree.object(as_path(&path)) {
                Object::File(metadata) => bytes += metadata.len(),
                Object::Directory(_) if directory_rule(&path, true).is_none() => {
                    pending.push(path);
                }
                _ => {}
            }
            if objects > MAX_IGNORED_OBJECTS || bytes > MAX_IGNORED_BYTES {
                return false;
            }
        }
    }
    true
}
