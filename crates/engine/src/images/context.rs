//! Build contexts: a directory with the Dockerfile and the files that it copies.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::images::error::ImageError;
use crate::images::lock::LockedPackages;
use crate::images::recipe::Recipe;
use crate::images::scratch::copy_tree;

/// Files of this machine that a Dockerfile may copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inputs {
    /// A PEM bundle for downloads.
    pub(crate) ca: Option<PathBuf>,
    /// The shim, for agents and the launcher.
    pub(crate) shim: Option<PathBuf>,
    /// The program `aifo-coder`, for the launcher.
    pub(crate) coder: Option<PathBuf>,
    /// A Rust toolchain, instead of Debian's.
    pub(crate) toolchain: Option<PathBuf>,
}

const PROFILE: &str = "zz-aifo.sh";

/// Keeps the shims first in PATH of login shells. The launcher mounts the same file.
pub const LOGIN_PROFILE: &str = include_str!("zz-aifo.sh");

impl Inputs {
    /// Creates the context of a recipe in a scratch directory.
    pub(crate) fn context(
        &self,
        scratch: &Path,
        recipe: &Recipe,
        locked: Option<&LockedPackages>,
    ) -> Result<PathBuf, ImageError> {
        let dir = scratch.join(&recipe.name);
        make(&dir)?;
        write(&dir.join("Dockerfile"), &recipe.dockerfile)?;
        for file in &recipe.files {
            let path = dir.join(&file.name);
            write(&path, &file.text)?;
            // COPY keeps the mode.
            let mode = if file.is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
        for (name, text) in locked.iter().flat_map(|locked| locked.files(&recipe.packages)) {
            write(&dir.join(name), &text)?;
        }
        if recipe.copies(PROFILE) {
            write(&dir.join(PROFILE), LOGIN_PROFILE)?;
        }
        if recipe.copies(CA) {
            self.ca_into(&dir)?;
        }
        if recipe.copies("toolchain/") {
            let to = dir.join("toolchain");
            make(&to)?;
            if let Some(toolchain) = &self.toolchain {
                // Its manuals are more than half of it.
                copy_tree(toolchain, &to, &["share"])?;
            }
        }
        for (program, name) in [(&self.shim, "aifo-shim"), (&self.coder, "aifo-coder")] {
            if let (Some(program), true) = (program, recipe.copies(name)) {
                copy(program, &dir.join(name))?;
            }
        }
        Ok(dir)
    }

    /// Copies the bundle, or creates an empty file, as COPY needs one.
    pub(crate) fn ca_into(&self, dir: &Path) -> Result<(), ImageError> {
        match &self.ca {
            Some(ca) => copy(ca, &dir.join(CA)),
            None => write(&dir.join(CA), ""),
        }
    }
}

/// The bundle's name in a context.
pub(crate) const CA: &str = "ca.crt";

/// Writes a file of a context.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), ImageError> {
    fs::write(path, text).map_err(ImageError::file("write", path))
}

pub(crate) fn make(dir: &Path) -> Result<(), ImageError> {
    fs::create_dir(dir).map_err(ImageError::file("create", dir))
}

fn copy(from: &Path, to: &Path) -> Result<(), ImageError> {
    fs::copy(from, to).map(drop).map_err(ImageError::file("read", from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::lock::Lock;
    use crate::images::recipes::recipes;

    #[test]
    fn a_context_has_every_file_that_its_dockerfile_copies() {
        let scratch = tempfile::tempdir().unwrap();
        let shim = scratch.path().join("shim");
        write(&shim, "shim").unwrap();
        let inputs = Inputs { coder: Some(shim.clone()), shim: Some(shim), ..Inputs::default() };
        let lock = Lock::embedded().unwrap();
        for recipe in recipes() {
            let locked = lock.packages(recipe, None, "").unwrap();
            let dir = inputs.context(scratch.path(), recipe, locked).unwrap();
            let copies = recipe.dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
            for line in copies.filter(|line| !line.starts_with("--from")) {
                let words: Vec<_> = line.split_whitespace().collect();
                let (_, sources) = words.split_last().unwrap();
                for source in sources {
                    assert!(dir.join(source).exists(), "{}: {source}", recipe.name);
                }
            }
        }
        let adapter = scratch.path().join("agent-claude/usr-local-bin-claude-agent-acp");
        assert_eq!(adapter.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }
}
