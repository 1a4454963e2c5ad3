//! Directories as a client names them, and as they are called where the runner is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Places that have another name at the runner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathTranslation {
    /// The client's name of each, and the runner's.
    places: Vec<(PathBuf, PathBuf)>,
}

impl PathTranslation {
    /// Everything below one of `theirs` is below `ours`.
    pub(crate) fn new(theirs: impl IntoIterator<Item = PathBuf>, ours: &Path) -> Self {
        let places = theirs.into_iter().map(|theirs| (theirs, ours.to_owned()));
        PathTranslation { places: places.collect() }
    }

    /// The runner's name of a directory. One that is in none of the places keeps its own.
    pub(crate) fn apply(&self, directory: &mut Vec<u8>) {
        let path = Path::new(OsStr::from_bytes(directory));
        let translated = self.places.iter().find_map(|(theirs, ours)| {
            let below = path.strip_prefix(theirs).ok()?;
            Some(ours.components().chain(below.components()).collect::<PathBuf>())
        });
        if let Some(translated) = translated {
            *directory = translated.into_os_string().into_encoded_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_place_is_called_by_its_other_name() {
        let theirs = ["/home/me/it", "/workspace"].map(PathBuf::from);
        let translation = PathTranslation::new(theirs, Path::new("/app"));
        let rows = [
            ("/home/me/it", "/app"),
            ("/home/me/it/", "/app"),
            ("/home/me/it/sub/x", "/app/sub/x"),
            ("/workspace/sub", "/app/sub"),
            ("/home/me/item", "/home/me/item"),
            ("/home/me/it/../x", "/app/../x"),
            ("/tmp", "/tmp"),
        ];
        for (name, expected) in rows {
            let mut directory = name.as_bytes().to_vec();
            translation.apply(&mut directory);
            assert_eq!(String::from_utf8_lossy(&directory), expected, "{name}");
        }
    }
}
