//! Temporary directories, and copies of directories.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::images::error::ImageError;

/// Creates a temporary directory of this user alone.
pub fn scratch() -> io::Result<TempDir> {
    let private = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("aifo-scratch-").permissions(private).tempdir()
}

/// Copies a directory's content, except for names in `without`.
pub fn copy_tree(from: &Path, to: &Path, without: &[&str]) -> Result<(), ImageError> {
    for entry in fs::read_dir(from).map_err(ImageError::file("list", from))? {
        let entry = entry?;
        let name = entry.file_name();
        if without.iter().any(|left_out| name == *left_out) {
            continue;
        }
        let target = to.join(&name);
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_tree(&entry.path(), &target, without)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_entries_are_not_copied() {
        let scratch = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
        fs::create_dir_all(from.join("src")).unwrap();
        fs::create_dir_all(from.join("target")).unwrap();
        fs::write(from.join("src/a"), "a").unwrap();
        fs::write(from.join("target/b"), "b").unwrap();
        fs::create_dir(&to).unwrap();
        copy_tree(&from, &to, &["target"]).unwrap();
        assert_eq!(fs::read(to.join("src/a")).unwrap(), b"a");
        assert!(!to.join("target").exists());
    }
}
