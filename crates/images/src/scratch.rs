//! Temporary directories.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::ImageError;

/// A private temporary directory, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _removed_on_drop: TempDir,
}

impl Scratch {
    /// Creates a directory with mode 0700, whose name starts with `name`.
    pub fn new(name: &str) -> Result<Self, ImageError> {
        let directory = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir()?;
        // Canonical, because a session takes only directories that are really below its workspace.
        let path = directory.path().canonicalize()?;
        Ok(Scratch { path, _removed_on_drop: directory })
    }

    /// Creates a directory in it.
    pub fn dir(&self, name: &str) -> Result<PathBuf, ImageError> {
        let dir = self.path.join(name);
        fs::create_dir(&dir).map_err(ImageError::file("create", &dir))?;
        Ok(dir)
    }

    /// The path of a file in it, which may not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a directory of links with these names to one program.
    pub fn links(&self, name: &str, tools: &[&str], program: &Path) -> Result<PathBuf, ImageError> {
        let dir = self.dir(name)?;
        for tool in tools {
            let link = dir.join(tool);
            symlink(program, &link).map_err(ImageError::file("create", &link))?;
        }
        Ok(dir)
    }
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
    fn a_copy_leaves_out_what_it_should_and_nothing_stays() {
        let scratch = Scratch::new("aifo-scratch-test").unwrap();
        let from = scratch.dir("from").unwrap();
        fs::create_dir_all(from.join("src")).unwrap();
        fs::create_dir_all(from.join("target")).unwrap();
        fs::write(from.join("src/a"), "a").unwrap();
        fs::write(from.join("target/b"), "b").unwrap();
        let to = scratch.dir("to").unwrap();
        copy_tree(&from, &to, &["target"]).unwrap();
        assert_eq!(fs::read(to.join("src/a")).unwrap(), b"a");
        assert!(!to.join("target").exists());
        drop(scratch);
        assert!(!from.exists());
    }
}
