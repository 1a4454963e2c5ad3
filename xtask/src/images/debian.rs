//! Base images from Debian packages, for machines that reach a mirror but no container registry.

use std::process::Command;

use anyhow::{Result, bail};

use super::engine::{Engine, INPUTS};
use super::{Reuse, context};
use crate::scratch::Scratch;
use crate::shell;

/// The default release. A program built in a sidecar may run beside the agent, so this C library
/// must not be newer than the agent's.
pub(super) const RELEASE: &str = "bookworm";

/// A root file system to build.
pub(super) struct Root<'a> {
    /// The image's name and tag.
    pub(super) image: &'a str,
    /// Debian's release.
    pub(super) release: &'a str,
    /// Packages beyond a minimal system with apt.
    pub(super) packages: &'a [&'a str],
}

impl Root<'_> {
    /// A digest of the inputs.
    pub(super) fn inputs(&self) -> String {
        context::digest([self.release].iter().chain(self.packages).chain(SLIM))
    }

    /// Builds the image for every engine that lacks it; packages are downloaded once.
    pub(super) fn provide(&self, engines: &[Engine], reuse: Reuse) -> Result<()> {
        let inputs = self.inputs();
        let lacking =
            |engine: &&Engine| reuse == Reuse::Nothing || !engine.has(self.image, &inputs);
        let lacking: Vec<&Engine> = engines.iter().filter(lacking).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        if shell::find_in_path("mmdebstrap").is_none() {
            bail!("'mmdebstrap' is not in PATH\nhint: apt-get install mmdebstrap");
        }
        let scratch = Scratch::new("aifo-debian")?;
        let tar = scratch.file("root.tar");
        let mut command = Command::new("mmdebstrap");
        command.args(["--quiet", "--variant=minbase"]);
        command.args(SLIM.iter().map(|option| format!("--dpkgopt={option}")));
        if !self.packages.is_empty() {
            command.arg(format!("--include={}", self.packages.join(",")));
        }
        shell::run(command.arg(self.release).arg(&tar))?;
        for engine in lacking {
            engine.import(&tar, self.image, &[format!("{INPUTS}={inputs}")])?;
        }
        Ok(())
    }
}

/// As in Debian's slim images: no manuals. Licences are kept.
const SLIM: &[&str] = &[
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_packages_are_another_root() {
        let root = |packages| Root { image: "x", release: RELEASE, packages }.inputs();
        assert_eq!(root(&["make"]), root(&["make"]));
        assert_ne!(root(&["make"]), root(&["make", "gcc"]));
        assert_ne!(root(&["ab"]), root(&["a", "b"]));
    }
}
