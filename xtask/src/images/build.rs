//! `images build`: builds images in the order of their bases.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::debian::Root;
use super::engine::Engine;
use super::recipe::{BaseImage, BuildRequest, Part, Recipe, find, ordered};
use super::{Base, Options, Reuse, Rust, context};
use crate::scratch::{Scratch, copy_tree};
use crate::{dist, shell};

/// Builds the named images and the images they are based on; by default all toolchains.
pub(super) fn build(engine: Engine, options: &Options) -> Result<()> {
    let orders = ordered(&options.names)?;
    let names = Names::from_environment();
    let ca = options.ca.clone().or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
    let scratch = Scratch::new("aifo-images")?;
    let baked = orders.iter().any(|order| order.recipe.part == Part::Agent);
    let shim = if baked { Some(dist::shim(&scratch.file("shim"))?) } else { None };
    let build = Build { engine, options, names, ca, shim, scratch };
    orders.iter().try_for_each(|order| build.image(order))
}

/// Image names: `AIFO_CODER_IMAGE_PREFIX` and `AIFO_CODER_IMAGE_TAG`, as the launcher reads them.
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

    fn image(&self, recipe: &Recipe) -> String {
        let Names { prefix, tag } = self;
        match recipe.part {
            Part::Toolchain => format!("{prefix}aifo-toolchain-{}:{tag}", recipe.name),
            Part::Base | Part::Agent => format!("{prefix}aifo-{}:{tag}", recipe.name),
        }
    }
}

struct Build<'a> {
    engine: Engine,
    options: &'a Options,
    names: Names,
    ca: Option<PathBuf>,
    /// The shim for agents' images; `None` if no agent is built.
    shim: Option<PathBuf>,
    scratch: Scratch,
}

impl Build<'_> {
    fn image(&self, order: &BuildRequest) -> Result<()> {
        let start = Instant::now();
        let image = self.names.image(order.recipe);
        let labels = [format!("{}={}", super::list::IMAGE, order.recipe.name)];
        let mut command = self.engine.build(&image, &self.base(order.recipe.on)?, &labels);
        if self.options.reuse == Reuse::Nothing {
            command.arg("--no-cache");
        }
        if let Some(version) = &order.version {
            // With another version, packages of the Dockerfile's `AS_OF` date may be too old.
            command.args(["--build-arg", &format!("VERSION={version}"), "--build-arg", "AS_OF="]);
        }
        let context = self.context(order.recipe)?;
        let dockerfile = fs::read_to_string(context.join("Dockerfile"))?;
        command.args(arguments(&dockerfile, |name| std::env::var_os(name).is_some()));
        shell::run(command.arg(&context))?;
        eprintln!("{image}: built in {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Returns the base image, after building it if it is Debian from packages.
    fn base(&self, on: BaseImage) -> Result<String> {
        let release = match on {
            BaseImage::Debian(release) => release,
            BaseImage::Image(name) => {
                let recipe = find(name).with_context(|| format!("no recipe '{name}'"))?;
                return Ok(self.names.image(recipe));
            }
        };
        match &self.options.base {
            Base::Slim => Ok(format!("debian:{release}-slim")),
            Base::Image(image) => Ok(image.clone()),
            Base::Mmdebstrap(chosen) => {
                let release = chosen.as_deref().unwrap_or(release);
                let image = format!("aifo-debian:{release}");
                let root = Root { image: &image, release, packages: &[] };
                root.provide(&[self.engine], self.options.reuse)?;
                Ok(image)
            }
        }
    }

    /// Prepares a copy of the image's directory with files that a Dockerfile cannot download: a CA
    /// bundle and a toolchain (empty if there is none, as COPY needs a file), and locally built
    /// ones.
    fn context(&self, recipe: &Recipe) -> Result<PathBuf> {
        let dir = self.scratch.dir(recipe.name)?;
        copy_tree(&context::dir(recipe.dir), &dir, &[])?;
        let bundle = dir.join("ca.crt");
        match &self.ca {
            Some(ca) => fs::copy(ca, &bundle)
                .map(drop)
                .with_context(|| format!("cannot read the CA bundle {}", ca.display()))?,
            None => fs::write(&bundle, "")?,
        }
        match recipe.dir {
            "rust" => {
                let toolchain = dir.join("toolchain");
                fs::create_dir(&toolchain)?;
                if self.options.rust == Rust::Host {
                    copy_toolchain(&toolchain)?;
                }
            }
            // The launcher's own file, which it mounts into foreign images.
            "agent-base" => {
                fs::copy(shell::root().join(PROFILE), dir.join("zz-aifo.sh"))?;
            }
            _ => {}
        }
        if let (Part::Agent, Some(shim)) = (recipe.part, &self.shim) {
            fs::copy(shim, dir.join("aifo-shim"))?;
        }
        Ok(dir)
    }
}

/// Keeps the shims first in PATH of login shells.
const PROFILE: &str = "crates/launch/src/agents/zz-aifo.sh";

/// Copies the toolchain that builds this workspace, without its manuals: they are more than half of
/// it.
fn copy_toolchain(to: &Path) -> Result<()> {
    let mut rustc = Command::new("rustc");
    let root = shell::read(rustc.args(["--print", "sysroot"]).current_dir(shell::root()))?;
    copy_tree(Path::new(&root), to, &["share"])
}

/// Returns build arguments for the package indexes that a Dockerfile declares and the environment
/// sets. Names only: the addresses may hold a password.
fn arguments(dockerfile: &str, is_set: impl Fn(&str) -> bool) -> Vec<OsString> {
    let declared = dockerfile.lines().filter_map(|line| line.strip_prefix("ARG "));
    let index = |name: &&str| name.starts_with("PIP_") || name.starts_with("NPM_CONFIG_");
    let handed = declared.filter(|name| index(name) && is_set(name));
    handed.flat_map(|name| ["--build-arg".into(), name.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::recipe::RECIPES;
    use super::*;

    #[test]
    fn images_are_named_by_prefix_and_tag() {
        let names = Names { prefix: "registry.example:5000/team/".into(), tag: "7".into() };
        let image = |name| names.image(find(name).unwrap());
        assert_eq!(image("base"), "registry.example:5000/team/aifo-base:7");
        assert_eq!(image("c-cpp"), "registry.example:5000/team/aifo-toolchain-c-cpp:7");
        assert_eq!(image("agent-codex"), "registry.example:5000/team/aifo-agent-codex:7");
    }

    #[test]
    fn every_dockerfile_starts_with_its_base_argument() {
        for Recipe { dir, .. } in RECIPES {
            let dockerfile = dockerfile(dir);
            let first = dockerfile.lines().find(|line| !line.starts_with('#'));
            assert_eq!(first, Some("ARG BASE"), "{dir}");
            let bases: Vec<_> =
                dockerfile.lines().filter(|line| line.starts_with("FROM ")).collect();
            assert!(bases.iter().all(|from| from.starts_with("FROM ${BASE}")), "{dir}: {bases:?}");
        }
    }

    #[test]
    fn every_agent_has_one_version_a_date_and_the_shim() {
        for Recipe { dir, .. } in RECIPES.iter().filter(|recipe| recipe.part == Part::Agent) {
            let dockerfile = dockerfile(dir);
            for word in ["ARG VERSION=", "ARG AS_OF=", "COPY aifo-shim ", " --install "] {
                assert_eq!(dockerfile.matches(word).count(), 1, "{dir}: {word}");
            }
        }
    }

    fn dockerfile(dir: &str) -> String {
        fs::read_to_string(context::dir(dir).join("Dockerfile")).unwrap()
    }

    #[test]
    fn only_what_a_dockerfile_takes_and_is_set_is_handed_on() {
        let dockerfile = "ARG BASE\nFROM ${BASE}\nARG UV=0.*\nARG PIP_INDEX_URL\nARG PIP_OTHER\n";
        let given = arguments(dockerfile, |name| name != "PIP_OTHER");
        assert_eq!(given, ["--build-arg", "PIP_INDEX_URL"]);
    }
}
