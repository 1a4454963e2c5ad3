//! Builds images in the order of their bases.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::VERSIONS_LABEL;
use crate::images::context::{Inputs, make, write};
use crate::images::debian::DebianRoot;
use crate::images::error::ImageError;
use crate::images::host::{Host, IMAGE_LABEL, Log, index_arguments, read};
use crate::images::lock::{Lock, LockedPackages};
use crate::images::recipe::{BaseImage, Part, Recipe};
use crate::images::recipes::{BuildRequest, find, ordered};
use crate::images::registry;
use crate::images::scratch::scratch;

/// The images to build, and their sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// The images: names of recipes, agents with an optional `@VERSION`, `toolchains`, `agents`.
    /// Empty: all toolchains.
    pub names: Vec<String>,
    /// The base of all images.
    pub base: BaseChoice,
    /// Names of the images.
    pub image_names: ImageNames,
    /// A PEM bundle for stages that download.
    pub ca: Option<PathBuf>,
    /// The shim. Required for agents and the launcher.
    pub shim: Option<PathBuf>,
    /// The program `aifo-coder`. Required for the launcher.
    pub coder: Option<PathBuf>,
    /// A Rust toolchain for the rust image, instead of Debian's.
    pub toolchain: Option<PathBuf>,
    /// Debian packages that images of agents have as well, by the agent. The names are valid.
    pub packages: BTreeMap<String, Vec<String>>,
    /// True if packages are downloaded again, whatever is cached.
    pub fresh: bool,
    /// The command that hints name, before `update`.
    pub command: &'static str,
}

/// The base of all images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BaseChoice {
    /// Debian's own image, by its locked digest; from mmdebstrap if no registry answers.
    #[default]
    Auto,
    /// From Debian's packages alone, of this release; `None`: of the recipe's.
    Mmdebstrap(Option<String>),
    /// The engine image, or one that it can pull. Not checked against the lock file.
    Image(String),
}

/// Prefix and tag of image names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageNames {
    /// Prepended unchanged: `registry.example/team/`.
    pub prefix: String,
    /// The tag.
    pub tag: String,
}

impl Default for ImageNames {
    fn default() -> Self {
        ImageNames { prefix: String::new(), tag: "latest".to_owned() }
    }
}

impl ImageNames {
    /// Reads `AIFO_CODER_IMAGE_PREFIX` and `AIFO_CODER_IMAGE_TAG`.
    pub fn from_environment() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        ImageNames {
            prefix: set("AIFO_CODER_IMAGE_PREFIX").unwrap_or_default(),
            tag: set("AIFO_CODER_IMAGE_TAG").unwrap_or_else(|| "latest".to_owned()),
        }
    }
}

impl BaseChoice {
    /// Parses `mmdebstrap`, `mmdebstrap:SUITE` or an image name.
    pub fn parse(value: &str) -> Self {
        match value.split_once(':') {
            Some(("mmdebstrap", release)) => BaseChoice::Mmdebstrap(Some(release.to_owned())),
            None if value == "mmdebstrap" => BaseChoice::Mmdebstrap(None),
            _ => BaseChoice::Image(value.to_owned()),
        }
    }
}

/// Builds the named images and their bases, and writes a line for each. Continues after a failure with
/// the images that do not depend on it. Returns the recipes of the images and the errors.
pub fn build(
    host: &Host,
    lock: &Lock,
    options: &BuildOptions,
    out: &mut dyn Write,
) -> Result<(Vec<&'static Recipe>, Vec<ImageError>), ImageError> {
    let requests = ordered(&options.names)?;
    // All locks are checked before the first build.
    for BuildRequest { recipe, version } in &requests {
        lock.packages(recipe, version.as_deref(), options.command)?;
    }
    let scratch = scratch()?;
    let mut builder = Builder::new(host, options, scratch.path(), out);
    let (mut built, mut errors) = (Vec::new(), Vec::new());
    let mut failed: Vec<&str> = Vec::new();
    for BuildRequest { recipe, version } in requests {
        let is_blocked = match &recipe.base {
            BaseImage::Recipe(base) => failed.contains(&base.as_str()),
            BaseImage::Debian(_) => false,
        };
        let result = match is_blocked {
            true => Err(None),
            false => lock
                .packages(recipe, version.as_deref(), options.command)
                .and_then(|locked| builder.image(recipe, locked, lock))
                .map_err(Some),
        };
        match result {
            Ok(()) => built.push(recipe),
            // Without a base nothing can be built.
            Err(Some(error @ (ImageError::NoBase { .. } | ImageError::NoMmdebstrap))) => {
                return Err(error);
            }
            Err(error) => {
                failed.push(&recipe.name);
                errors.extend(error);
            }
        }
    }
    Ok((built, errors))
}

/// Builds single images.
pub(crate) struct Builder<'a> {
    pub(crate) host: &'a Host,
    pub(crate) inputs: Inputs,
    pub(crate) log: Log<'a>,
    scratch: &'a Path,
    options: &'a BuildOptions,
    /// The Debian bases that were found or built, by release.
    bases: BTreeMap<String, String>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        host: &'a Host,
        options: &'a BuildOptions,
        scratch: &'a Path,
        out: &'a mut dyn Write,
    ) -> Self {
        let inputs = Inputs {
            ca: options.ca.clone(),
            shim: options.shim.clone(),
            coder: options.coder.clone(),
            toolchain: options.toolchain.clone(),
        };
        let log = Log::new(scratch, out);
        Builder { host, inputs, log, scratch, options, bases: BTreeMap::new() }
    }

    /// Builds one image.
    pub(crate) fn image(
        &mut self,
        recipe: &Recipe,
        locked: Option<&LockedPackages>,
        lock: &Lock,
    ) -> Result<(), ImageError> {
        debug_assert!(!recipe.copies("aifo-shim") || self.inputs.shim.is_some());
        let ImageNames { prefix, tag } = &self.options.image_names;
        let image = recipe.image_name(prefix, tag);
        let base = self.base(recipe, lock)?;
        let added = self.options.packages.get(recipe.short_name()).map_or(&[][..], Vec::as_slice);
        let recipe = &recipe.with_packages(added);
        let labels = [format!("{IMAGE_LABEL}={}", recipe.name)];
        let mut command = self.host.build(&image, &base, &labels);
        if self.options.fresh {
            command.arg("--no-cache");
        }
        let is_set = |name: &str| std::env::var_os(name).is_some();
        command.args(index_arguments(&recipe.dockerfile, is_set));
        let context = self.inputs.context(self.scratch, recipe, locked)?;
        self.log.step(&image, command.arg(&context))?;
        match recipe.part {
            Part::Toolchain => self.label_version(recipe, &image),
            Part::Base | Part::Agent | Part::Launcher => Ok(()),
        }
    }

    /// Labels an image with the version of its toolchain, which only the image itself knows. An image
    /// whose toolchain does not print one has no label.
    fn label_version(&mut self, recipe: &Recipe, image: &str) -> Result<(), ImageError> {
        let Some(command) = recipe.version_command() else { return Ok(()) };
        let (program, args) = command.split_first().unwrap_or((&"", &[]));
        let run = ["run", "--rm", "--network", "none", "--entrypoint", program, image];
        let printed = read(image, self.host.command(run).args(args)).unwrap_or_default();
        let Some(version) = version_in(&printed) else { return Ok(()) };
        let context = self.scratch.join(format!("{}-version", recipe.name));
        make(&context)?;
        write(&context.join("Dockerfile"), "ARG BASE\nFROM ${BASE}\n")?;
        let label = format!("{VERSIONS_LABEL}={version}");
        self.log.quiet(image, self.host.build(image, image, &[label]).arg(context))
    }

    /// Returns the base image of a recipe. Pulls or builds it if it is Debian.
    pub(crate) fn base(&mut self, recipe: &Recipe, lock: &Lock) -> Result<String, ImageError> {
        let release = match &recipe.base {
            BaseImage::Debian(release) => release,
            BaseImage::Recipe(name) => {
                let ImageNames { prefix, tag } = &self.options.image_names;
                let base = find(name).map(|base| base.image_name(prefix, tag));
                return Ok(base.unwrap_or_else(|| name.clone()));
            }
        };
        match &self.options.base {
            BaseChoice::Image(image) => Ok(image.clone()),
            BaseChoice::Mmdebstrap(suite) => self.debian_base(suite.as_deref().unwrap_or(release)),
            BaseChoice::Auto => match self.bases.get(release) {
                Some(base) => Ok(base.clone()),
                None => {
                    let base = self.registry_or_packages(release, lock)?;
                    self.bases.insert(release.clone(), base.clone());
                    Ok(base)
                }
            },
        }
    }

    fn registry_or_packages(&mut self, release: &str, lock: &Lock) -> Result<String, ImageError> {
        let name = registry::locked_name(release);
        let digest = lock.digest(&name).ok_or_else(|| ImageError::NotLocked {
            recipe: "base".to_owned(),
            package: name.clone(),
            locked: String::new(),
            hint: format!("{} update base", self.options.command),
        })?;
        registry::with_digest(self.host, digest).or_else(|reason| {
            if self.host.mmdebstrap.is_none() {
                return Err(ImageError::NoBase { image: name.clone(), reason });
            }
            self.log.line(&format!("{name}: {reason}; building it with mmdebstrap"));
            self.debian_base(release)
        })
    }

    fn debian_base(&mut self, release: &str) -> Result<String, ImageError> {
        let image = format!("aifo-debian:{release}");
        let root = DebianRoot { image: &image, release, packages: &[] };
        // Once per run, however many images are based on it.
        let fresh = self.options.fresh && !self.bases.values().any(|base| *base == image);
        root.provide_logged(std::slice::from_ref(self.host), fresh, &mut self.log)?;
        self.bases.insert(release.to_owned(), image.clone());
        Ok(image)
    }
}

/// Returns the version in the output of a toolchain: the first word of numbers with dots between them,
/// without `v` or `go` before it.
fn version_in(printed: &str) -> Option<&str> {
    let words = printed.split_whitespace().map(|word| {
        let word = word.strip_prefix("go").unwrap_or(word);
        word.strip_prefix('v').unwrap_or(word)
    });
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    words.into_iter().find(|word| word.contains('.') && word.split('.').all(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_toolchains_print() {
        let rows = [
            ("v24.4.1\n", Some("24.4.1")),
            ("go version go1.24.4 linux/amd64\n", Some("1.24.4")),
            ("rustc 1.88.0 (6b00bc388 2025-06-23)\n", Some("1.88.0")),
            ("Python 3.13.5\n", Some("3.13.5")),
            ("rustc 1.90.0-nightly (x)\n", None),
            ("", None),
        ];
        for (printed, expected) in rows {
            assert_eq!(version_in(printed), expected, "{printed}");
        }
    }

    #[test]
    fn bases_are_distinguished() {
        let parse = BaseChoice::parse;
        assert_eq!(parse("mmdebstrap"), BaseChoice::Mmdebstrap(None));
        assert_eq!(parse("mmdebstrap:trixie"), BaseChoice::Mmdebstrap(Some("trixie".into())));
        assert_eq!(parse("debian:trixie"), BaseChoice::Image("debian:trixie".into()));
        assert_eq!(parse("host:5000/a/b"), BaseChoice::Image("host:5000/a/b".into()));
    }
}
