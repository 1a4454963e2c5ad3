//! Which images there are, and what each stands on.

use anyhow::{Context, Result, bail};

use super::debian;

/// An image that can be built.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// The directory of its Dockerfile.
    pub(super) dir: &'static str,
    pub(super) part: Part,
    pub(super) on: BaseImage,
}

/// What an image is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Others stand on it.
    Base,
    /// A sidecar runs in it.
    Toolchain,
    /// An agent runs in it.
    Agent,
}

/// What an image stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseImage {
    /// This release of Debian, unless all is to stand on something else.
    Debian(&'static str),
    /// Another image of the table, which stands before it.
    Image(&'static str),
}

/// A recipe, and the version that is to be in it; `None`: the one that its Dockerfile names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BuildRequest {
    pub(super) recipe: &'static Recipe,
    pub(super) version: Option<String>,
}

/// The release that agents stand on. What a sidecar builds may be run beside the agent, so its C
/// library must not be the older one; and some agents want the Python that came with this one.
const NEWER: &str = "trixie";

/// All of them, each behind what it stands on.
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
    // The packages that aider pins are not to be had for a newer Python than the older release's.
    base("agent-base-bookworm", "agent-base", BaseImage::Debian("bookworm")),
    base("agent-python-bookworm", "agent-python", BaseImage::Image("agent-base-bookworm")),
    agent("agent-aider", "agent-python-bookworm"),
    // The last, as it cannot be made where its release host is not reached.
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

/// What these names ask for, each behind what it stands on. `toolchains` and `agents` are all of
/// theirs, no name at all is the former; behind an agent's name there may be a version
/// (`agent-codex@0.169.0`).
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
        format!("unknown image '{name}'\nimages: toolchains agents {}", names.join(" "))
    })?;
    if version.is_some() && recipe.part != Part::Agent {
        bail!("'{name}' has no version to choose\nhint: only agents have");
    }
    if version == Some("") {
        bail!("'{name}@' names no version");
    }
    Ok((recipe, version))
}

/// The recipe of this name.
pub(super) fn find(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

/// A recipe, what it stands on, what that stands on, and so on.
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
