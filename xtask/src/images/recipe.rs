//! The known images and their bases.

use anyhow::{Context, Result, bail};

use super::debian;

/// An image that can be built.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The directory of its Dockerfile.
    pub(super) dir: &'static str,
    pub(super) part: Part,
    pub(super) on: BaseImage,
}

/// The purpose of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A base of other images.
    Base,
    /// A sidecar's image.
    Toolchain,
    /// An agent's image.
    Agent,
}

/// The base of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseImage {
    /// This Debian release, unless `--base` names another base.
    Debian(&'static str),
    /// Another recipe, which precedes it in the table.
    Image(&'static str),
}

/// A recipe and its version; `None`: the Dockerfile's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BuildRequest {
    pub(super) recipe: &'static Recipe,
    pub(super) version: Option<String>,
}

/// The agents' release. Programs built in a sidecar may run beside the agent, so its C library must
/// not be older; some agents need this release's Python.
const NEWER: &str = "trixie";

/// All recipes, each after its base.
pub(super) const RECIPES: &[Recipe] = &[
    base("base", "base", BaseImage::Debian(debian::RELEASE)),
    toolchain("rust"),
    toolchain("node"),
    toolchain("python"),
    toolchain("go"),
    toolchain("c-cpp"),
    base("agent-base", "agent-base", BaseImage::Debian(NEWER)),
    base("agent-node", "agent-node", BaseImage::Image("agent-base")),
    agent("agent-codex", "agent-node"),
    agent("agent-opencode", "agent-node"),
    agent("agent-gemini", "agent-node"),
    agent("agent-claude", "agent-node"),
    agent("agent-qwen", "agent-node"),
    agent("agent-copilot", "agent-node"),
    agent("agent-letta", "agent-node"),
    base("agent-python", "agent-python", BaseImage::Image("agent-base")),
    agent("agent-openhands", "agent-python"),
    agent("agent-kimi", "agent-python"),
    agent("agent-vibe", "agent-python"),
    // Aider pins packages that newer Pythons do not support.
    base("agent-base-bookworm", "agent-base", BaseImage::Debian("bookworm")),
    base("agent-python-bookworm", "agent-python", BaseImage::Image("agent-base-bookworm")),
    agent("agent-aider", "agent-python-bookworm"),
    // Last, as its build fails where its release host is unreachable.
    agent("agent-crush", "agent-node"),
];

const fn base(name: &'static str, dir: &'static str, on: BaseImage) -> Recipe {
    Recipe { name, dir, part: Part::Base, on }
}

const fn toolchain(kind: &'static str) -> Recipe {
    Recipe { name: kind, dir: kind, part: Part::Toolchain, on: BaseImage::Image("base") }
}

const fn agent(name: &'static str, on: &'static str) -> Recipe {
    Recipe { name, dir: name, part: Part::Agent, on: BaseImage::Image(on) }
}

/// Returns the named recipes, each after its base. `toolchains` (the default) and `agents` stand
/// for all of their kind; an agent's name may have a version (`agent-codex@0.169.0`).
pub(super) fn ordered(names: &[String]) -> Result<Vec<BuildRequest>> {
    let toolchains = ["toolchains".to_owned()];
    let names = if names.is_empty() { &toolchains } else { names };
    let mut wanted: Vec<(&'static Recipe, Option<&str>)> = Vec::new();
    for name in names {
        match name.as_str() {
            "toolchains" => wanted.extend(all(Part::Toolchain)),
            "agents" => wanted.extend(all(Part::Agent)),
            name => wanted.push(one(name)?),
        }
    }
    let mut order = Vec::new();
    for recipe in RECIPES {
        let mut asked = wanted.iter().filter(|(wanted, _)| below(wanted).any(|r| r == recipe));
        if asked.clone().next().is_some() {
            let version = asked.find_map(|(wanted, version)| version.filter(|_| *wanted == recipe));
            order.push(BuildRequest { recipe, version: version.map(str::to_owned) });
        }
    }
    Ok(order)
}

fn all<'a>(part: Part) -> impl Iterator<Item = (&'static Recipe, Option<&'a str>)> {
    RECIPES.iter().filter(move |recipe| recipe.part == part).map(|recipe| (recipe, None))
}

fn one(name: &str) -> Result<(&'static Recipe, Option<&str>)> {
    let (name, version) = match name.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (name, None),
    };
    let recipe = find(name).with_context(|| {
        let names: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
        format!(
            "unknown image '{name}'\nhint: the images are: toolchains agents {}",
            names.join(" ")
        )
    })?;
    if version.is_some() && recipe.part != Part::Agent {
        bail!("'{name}' takes no version\nhint: only agents take one");
    }
    if version == Some("") {
        bail!("the version after '{name}@' is empty");
    }
    Ok((recipe, version))
}

/// The recipe of this name.
pub(super) fn find(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

/// A recipe and its chain of bases.
fn below(recipe: &'static Recipe) -> impl Iterator<Item = &'static Recipe> {
    std::iter::successors(Some(recipe), |recipe| match recipe.on {
        BaseImage::Debian(_) => None,
        BaseImage::Image(name) => find(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Vec<&'static str> {
        let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
        ordered(&asked).unwrap().iter().map(|order| order.recipe.name).collect()
    }

    #[test]
    fn everything_comes_behind_what_it_stands_on() {
        assert_eq!(names(&[]), ["base", "rust", "node", "python", "go", "c-cpp"]);
        assert_eq!(names(&["go", "rust"]), ["base", "rust", "go"]);
        assert_eq!(names(&["base"]), ["base"]);
        assert_eq!(names(&["agent-codex"]), ["agent-base", "agent-node", "agent-codex"]);
        assert_eq!(names(&["toolchains", "agents"]).len(), RECIPES.len());
        for (at, recipe) in RECIPES.iter().enumerate() {
            if let BaseImage::Image(name) = recipe.on {
                let before = RECIPES[..at].iter().find(|before| before.name == name);
                assert_eq!(before.map(|before| before.part), Some(Part::Base), "{}", recipe.name);
            }
        }
    }

    #[test]
    fn agents_may_have_another_version() {
        let asked = ["agent-codex@1.2.3".to_owned(), "agent-gemini".to_owned()];
        let orders = ordered(&asked).unwrap();
        let versions: Vec<_> = orders.iter().map(|order| order.version.as_deref()).collect();
        assert_eq!(versions, [None, None, Some("1.2.3"), None]);
        for name in ["perl", "rust@1.0", "agent-base@1", "agent-", "agent-codex@"] {
            assert!(ordered(&[name.to_owned()]).is_err(), "{name}");
        }
    }
}
