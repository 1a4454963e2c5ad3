//! `images test`: the suites' images. They are small and are rebuilt only if their inputs changed.

use anyhow::Result;

use super::debian::{RELEASE, Root};
use super::engine::{Engine, INPUTS};
use super::{Reuse, context, list};
use crate::shell;

/// The Debian root, with the real tools that suites need.
const ROOT: Root<'_> = Root {
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
    ROOT.provide(engines, Reuse::Same)?;
    for engine in engines {
        let base = provide(*engine, "base", ROOT.image, &ROOT.inputs())?;
        for name in VARIANTS {
            provide(*engine, name, BASE, &base)?;
        }
    }
    Ok(())
}

/// Builds an image unless the engine has it from the same inputs; returns their digest.
fn provide(engine: Engine, name: &str, base: &str, base_inputs: &str) -> Result<String> {
    let dir = format!("test/{name}");
    let inputs = context::inputs(&dir, base_inputs)?;
    let image = format!("aifo-test-{name}:latest");
    if !engine.has(&image, &inputs) {
        let labels = [format!("{}=test", list::IMAGE), format!("{INPUTS}={inputs}")];
        let mut command = engine.build(&image, base, &labels);
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
