//! One recipe.

/// An image that can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The name: `rust`, `agent-codex`.
    pub name: String,
    /// The purpose of the image.
    pub part: Part,
    pub(crate) base: BaseImage,
    pub(crate) packages: Packages,
    pub(crate) dockerfile: String,
    pub(crate) files: Vec<ContextFile>,
    /// The recipe whose lock entry applies.
    pub(crate) locked_as: String,
}

/// A file of a build context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContextFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_program: bool,
}

/// The purpose of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A base of other images.
    Base,
    /// A sidecar image.
    Toolchain,
    /// An agent image.
    Agent,
    /// The image of the launcher in a pod.
    Launcher,
}

/// The base of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BaseImage {
    /// This Debian release, unless the caller names another base.
    Debian(String),
    /// Another recipe.
    Recipe(String),
}

/// Packages of an index, as requirements in the index's own syntax. The first one has the version of
/// the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packages {
    None,
    Npm(Vec<String>),
    /// With all dependencies.
    Pypi(Vec<String>),
    /// Without dependencies.
    Wheels(Vec<String>),
}

impl Recipe {
    /// Returns the image name: PREFIX, `aifo-`, the recipe, and the tag.
    pub fn image_name(&self, prefix: &str, tag: &str) -> String {
        let toolchain = if self.part == Part::Toolchain { "toolchain-" } else { "" };
        format!("{prefix}aifo-{toolchain}{}:{tag}", self.name)
    }

    /// Returns the name for the command line, without `agent-` for agents.
    pub fn short_name(&self) -> &str {
        match self.part {
            Part::Agent => self.name.strip_prefix(AGENT).unwrap_or(&self.name),
            Part::Base | Part::Toolchain | Part::Launcher => &self.name,
        }
    }

    /// Adds Debian packages to its last stage, below all that changes with the agent's version.
    #[must_use]
    pub(crate) fn with_packages(&self, packages: &[String]) -> Self {
        let mut recipe = self.clone();
        if let (Some(at), [_, ..]) = (self.dockerfile.rfind(LAST_STAGE), packages) {
            let install = format!(
                "RUN apt-get update \\\n \
                 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \\\n      \
                 {} \\\n \
                 && apt-get clean && rm -rf /var/lib/apt/lists/*\nLABEL {PACKAGES_LABEL}=\"{}\"\n",
                packages.join(" "),
                packages.join(" ")
            );
            recipe.dockerfile.insert_str(at + LAST_STAGE.len(), &install);
        }
        recipe
    }

    /// Returns the command that prints the version of a toolchain; `None` if no project requests one.
    pub(crate) fn version_command(&self) -> Option<&'static [&'static str]> {
        Some(match self.name.as_str() {
            "rust" => &["rustc", "--version"],
            "go" => &["go", "version"],
            "node" => &["node", "--version"],
            "python" => &["python3", "--version"],
            _ => return None,
        })
    }

    /// Returns whether its Dockerfile copies this file of the context.
    pub(crate) fn copies(&self, file: &str) -> bool {
        let copies = self.dockerfile.lines().filter(|line| line.starts_with("COPY "));
        copies.flat_map(str::split_whitespace).any(|word| word == file)
    }

    /// The same on the bases of another Debian release.
    pub(crate) fn on_release(&self, release: &str) -> Self {
        let base = match &self.base {
            BaseImage::Debian(_) => BaseImage::Debian(release.to_owned()),
            BaseImage::Recipe(base) => BaseImage::Recipe(format!("{base}-{release}")),
        };
        let name = format!("{}-{release}", self.name);
        Recipe { name, base, ..self.clone() }
    }
}

impl Packages {
    pub(crate) fn requirements(&self) -> &[String] {
        match self {
            Packages::None => &[],
            Packages::Npm(words) | Packages::Pypi(words) | Packages::Wheels(words) => words,
        }
    }
}

/// Returns the name of a requirement: `uv` of `uv==1.*`, `@a/b` of `@a/b@1`.
pub(crate) fn package_name(requirement: &str) -> &str {
    let at = requirement.char_indices().skip(1).find(|(_, c)| "@=<>~!".contains(*c));
    at.map_or(requirement, |(at, _)| requirement.get(..at).unwrap_or(requirement))
}

/// The first line of a last stage.
pub(crate) const LAST_STAGE: &str = "FROM ${BASE}\n";
/// The label with the Debian packages that the user's configuration has added to an agent's image.
pub const PACKAGES_LABEL: &str = "dev.aifo.packages";

/// Prefix of agents' recipes.
pub(crate) const AGENT: &str = "agent-";
