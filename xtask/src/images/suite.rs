//! `images test`: the suites' images. They are small and are rebuilt only if their inputs changed.

use std::io::stderr;

use aifo_engine::images::{DebianRoot, Host, IMAGE_LABEL, INPUTS_LABEL, RELEASE};
use anyhow::Result;

use super::context;
use super::engine::Engine;
use crate::shell;

/// The Debian root, with the real tools that suites need.
const ROOT: DebianRoot<'_> = DebianRoot {
    image: "aifo-test-debian:latest",
    release: RELEASE,
    packages: &["g++", "gcc", "libc6-dev", "make", "nodejs", "procps", "python3"],
};

/// The image that every kind uses.
const BASE: &str = "aifo-test-base:latest";

/// Variants that differ from it in one respect each.
const VARIANTS: [&str; 5] = ["dash", "noshell", "user", "hostile", "path"];

/// Builds the suites' images that each engine lacks.
pub(crate) fn build(engines: &[Engine]) -> Result<()> {
    let hosts = engines.iter().map(|engine| engine.host()).collect::<Result<Vec<_>>>()?;
    ROOT.provide(&hosts, false, &mut stderr())?;
    for host in &hosts {
        let base = provide(host, "base", ROOT.image, &ROOT.inputs())?;
        for name in VARIANTS {
            provide(host, name, BASE, &base)?;
        }
    }
    Ok(())
}

/// Builds an image unless the engine has it from the same inputs; returns their digest.
fn provide(host: &Host, name: &str, base: &str, base_inputs: &str) -> Result<String> {
    let dir = format!("test/{name}");
    let inputs = context::inputs(&dir, base_inputs)?;
    let image = format!("aifo-test-{name}:latest");
    if !host.has(&image, &inputs) {
        let labels = [format!("{IMAGE_LABEL}=test"), format!("{INPUTS_LABEL}={inputs}")];
        let mut command = host.build(&image, base, &labels);
        shell::run(command.arg(context::dir(&dir)))?;
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_are_the_images() {
        let entries = std::fs::read_dir(context::dir("test")).unwrap().flatten();
        let dirs = entries.filter(|entry| entry.path().is_dir());
        let mut dirs: Vec<_> = dirs.map(|entry| entry.file_name()).collect();
        let mut images = VARIANTS.to_vec();
        images.push("base");
        dirs.sort();
        images.sort_unstable();
        assert_eq!(dirs, images);
    }
}
