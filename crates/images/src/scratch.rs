//! Temporary directories.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::ImageError;

/// A private temporary directory, removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates `NAME-PID` with mode 0700.
    pub fn new(name: &str) -> Result<Self, ImageError> {
        let dir = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&dir);
        made.map_err(ImageError::file("create", &dir))?;
        // Canonical, because a session takes only directories that are really below its workspace.
        Ok(Scratch(dir.canonicalize()?))
    }

    /// Creates a directory in it.
    pub fn dir(&self, name: &str) -> Result<PathBuf, ImageError> {
        let dir = self.0.join(name);
        fs::create_dir(&dir).map_err(ImageError::file("create", &dir))?;
        Ok(dir)
    }

    /// The path of a file in it, which may not exist.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
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

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
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
