//! Build contexts of the suites' images: a directory of `xtask/images/`, and a digest of its content.

use std::fs;
use std::path::{Path, PathBuf};

use aifo_engine::images::digest;
use anyhow::{Context, Result};

use crate::shell;

/// The directory of an image's Dockerfile, for example `test/dash`.
pub(super) fn dir(name: &str) -> PathBuf {
    shell::root().join("xtask/images").join(name)
}

/// A digest of an image directory and its base.
pub(super) fn inputs(name: &str, base: &str) -> Result<String> {
    let dir = dir(name);
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut parts = vec![base.as_bytes().to_vec()];
    for file in files {
        parts.push(file_name(&file));
        parts.push(fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(digest(parts))
}

fn file_name(path: &Path) -> Vec<u8> {
    path.file_name().unwrap_or_default().as_encoded_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_follow_the_base_and_the_directory() {
        let inputs = |name, base| inputs(name, base).unwrap();
        assert_eq!(inputs("test/dash", "a"), inputs("test/dash", "a"));
        assert_ne!(inputs("test/dash", "a"), inputs("test/dash", "b"));
        assert_ne!(inputs("test/dash", "a"), inputs("test/user", "a"));
    }
}
