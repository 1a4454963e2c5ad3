//! Translates the clients' directories to the runner's.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories with different paths for clients and runner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathTranslation {
    /// The client path and the runner path of each.
    directories: Vec<(PathBuf, PathBuf)>,
}

impl PathTranslation {
    /// Translates each of the client paths to the same path of the runner.
    pub(crate) fn new(client: impl IntoIterator<Item = PathBuf>, runner: &Path) -> Self {
        let directories = client.into_iter().map(|client| (client, runner.to_owned()));
        PathTranslation { directories: directories.collect() }
    }

    /// Replaces a client path by the runner's. Other paths are unchanged.
    pub(crate) fn apply(&self, directory: &mut Vec<u8>) {
        let path = Path::new(OsStr::from_bytes(directory));
        let translated = self.directories.iter().find_map(|(client, runner)| {
            let below = path.strip_prefix(client).ok()?;
            Some(runner.components().chain(below.components()).collect::<PathBuf>())
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
    fn translates_paths_below_the_directories() {
        let client = ["/home/me/it", "/workspace"].map(PathBuf::from);
        let translation = PathTranslation::new(client, Path::new("/app"));
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
