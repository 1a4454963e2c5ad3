//! `images build`: a base, and an image per kind of toolchain on it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::debian::Root;
use super::engine::Engine;
use super::{Base, Options, Reuse, Rust, context};
use crate::scratch::{Scratch, copy_tree};
use crate::shell;

/// The image that the others stand on.
const BASE: &str = "base";

/// The kinds that have an image.
const KINDS: [&str; 5] = ["rust", "node", "python", "go", "c-cpp"];

/// Builds the base, and on it what was named; without a name, all.
pub(super) fn build(engine: Engine, options: &Options) -> Result<()> {
    let names = Names::from_environment();
    let kinds = chosen(&options.names)?;
    let ca = options.ca.clone().or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
    let scratch = Scratch::new("aifo-images")?;
    let build = Build { engine, options, ca, scratch };
    build.image(BASE, &names.image(BASE), &build.root()?)?;
    for kind in kinds {
        build.image(kind, &names.image(kind), &names.image(BASE))?;
    }
    Ok(())
}

/// The kinds among these names; none named: all.
fn chosen(names: &[String]) -> Result<Vec<&'static str>> {
    if let Some(name) = names.iter().find(|name| *name != BASE && !KINDS.contains(&name.as_str())) {
        bail!("unknown image '{name}'\nimages: {BASE} {}", KINDS.join(" "));
    }
    let named = |kind: &&str| names.is_empty() || names.iter().any(|name| name == kind);
    Ok(KINDS.into_iter().filter(named).collect())
}

/// How images are called: `AIFO_CODER_IMAGE_PREFIX` and `AIFO_CODER_IMAGE_TAG`, as the launcher
/// reads them.
struct Names {
    prefix: String,
    tag: String,
}

impl Names {
    fn from_environment() -> Self {
        let tag = std::env::var("AIFO_CODER_IMAGE_TAG").ok().filter(|tag| !tag.is_empty());
        Names {
            prefix: std::env::var("AIFO_CODER_IMAGE_PREFIX").unwrap_or_default(),
            tag: tag.unwrap_or_else(|| "latest".into()),
        }
    }

    fn image(&self, name: &str) -> String {
        let Names { prefix, tag } = self;
        match name {
            BASE => format!("{prefix}aifo-base:{tag}"),
            kind => format!("{prefix}aifo-toolchain-{kind}:{tag}"),
        }
    }
}

struct Build<'a> {
    engine: Engine,
    options: &'a Options,
    ca: Option<PathBuf>,
    scratch: Scratch,
}

impl Build<'_> {
    /// The image that the base stands on, made where it is ours to make.
    fn root(&self) -> Result<String> {
        match &self.options.base {
            Base::Image(image) => Ok(image.clone()),
            Base::Mmdebstrap(release) => {
                let image = format!("aifo-debian:{release}");
                let root = Root { image: &image, release, packages: &[] };
                root.provide(&[self.engine], self.options.reuse)?;
                Ok(image)
            }
        }
    }

    fn image(&self, name: &str, image: &str, base: &str) -> Result<()> {
        let start = Instant::now();
        let labels = [format!("{}={name}", super::list::IMAGE)];
        let mut command = self.engine.build(image, base, &labels);
        if self.options.reuse == Reuse::Nothing {
            command.arg("--no-cache");
        }
        let context = self.context(name)?;
        let dockerfile = fs::read_to_string(context.join("Dockerfile"))?;
        command.args(arguments(&dockerfile, |name| std::env::var_os(name).is_some()));
        shell::run(command.arg(&context))?;
        eprintln!("{image}: built in {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    /// The image's folder with what only this machine has: a CA bundle and a toolchain, either of
    /// them empty where there is none, since no builder knows a COPY of what may be absent.
    fn context(&self, name: &str) -> Result<PathBuf> {
        let dir = self.scratch.dir(name)?;
        copy_tree(&context::folder(name), &dir, &[])?;
        let bundle = dir.join("ca.crt");
        match &self.ca {
            Some(ca) => fs::copy(ca, &bundle)
                .map(drop)
                .with_context(|| format!("cannot read the CA bundle {}", ca.display()))?,
            None => fs::write(&bundle, "")?,
        }
        if name == "rust" {
            let toolchain = dir.join("toolchain");
            fs::create_dir(&toolchain)?;
            if self.options.rust == Rust::Host {
                copy_toolchain(&toolchain)?;
            }
        }
        Ok(dir)
    }
}

/// The toolchain that builds this workspace, without its manuals: they are more than half of it.
fn copy_toolchain(to: &Path) -> Result<()> {
    let mut rustc = Command::new("rustc");
    let root = shell::read(rustc.args(["--print", "sysroot"]).current_dir(shell::root()))?;
    copy_tree(Path::new(&root), to, &["share"])
}

/// The options that hand on what a Dockerfile takes and the environment has: the package index. By
/// name only, as in its address there may be a password.
fn arguments(dockerfile: &str, is_set: impl Fn(&str) -> bool) -> Vec<OsString> {
    let declared = dockerfile.lines().filter_map(|line| line.strip_prefix("ARG "));
    let handed = declared.filter(|name| name.starts_with("PIP_") && is_set(name));
    handed.flat_map(|name| ["--build-arg".into(), name.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_from_the_table() {
        let chosen = |names: &[&str]| {
            chosen(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap(), KINDS);
        assert_eq!(chosen(&["go", "rust"]).unwrap(), ["rust", "go"]);
        assert_eq!(chosen(&["base"]).unwrap(), [""; 0]);
        assert!(chosen(&["perl"]).is_err());
    }

    #[test]
    fn images_are_named_by_prefix_and_tag() {
        let names = Names { prefix: "registry.example:5000/team/".into(), tag: "7".into() };
        assert_eq!(names.image("base"), "registry.example:5000/team/aifo-base:7");
        assert_eq!(names.image("c-cpp"), "registry.example:5000/team/aifo-toolchain-c-cpp:7");
    }

    #[test]
    fn every_image_stands_on_what_it_is_told() {
        for name in KINDS.into_iter().chain([BASE]) {
            let dockerfile = fs::read_to_string(context::folder(name).join("Dockerfile")).unwrap();
            let first = dockerfile.lines().find(|line| !line.starts_with('#'));
            assert_eq!(first, Some("ARG BASE"), "{name}");
            let bases: Vec<_> =
                dockerfile.lines().filter(|line| line.starts_with("FROM ")).collect();
            assert!(bases.iter().all(|from| from.starts_with("FROM ${BASE}")), "{name}: {bases:?}");
        }
    }

    #[test]
    fn only_what_a_dockerfile_takes_and_is_set_is_handed_on() {
        let dockerfile = "ARG BASE\nFROM ${BASE}\nARG UV=0.*\nARG PIP_INDEX_URL\nARG PIP_OTHER\n";
        let given = arguments(dockerfile, |name| name != "PIP_OTHER");
        assert_eq!(given, ["--build-arg", "PIP_INDEX_URL"]);
    }
}
