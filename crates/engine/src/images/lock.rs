//! The lock file: versions and hashes of packages, digests of bases.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::images::agent::package_json;
use crate::images::error::ImageError;
use crate::images::recipe::{Packages, Recipe, package_name};

/// A lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// By the image name in a registry.
    bases: BTreeMap<String, LockedBase>,
    /// By the recipe's name.
    recipes: BTreeMap<String, LockedPackages>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedBase {
    /// Seconds since 1970: the newer of two entries applies.
    time: u64,
    digest: String,
}

/// The packages of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockedPackages {
    /// Seconds since 1970: the newer of two entries applies.
    time: u64,
    /// The versions of the packages that the recipe names.
    pub(crate) versions: BTreeMap<String, String>,
    /// npm's tree: the `packages` of a `package-lock.json`, with an `integrity` each.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    npm: Map<String, Value>,
    /// The SHA-256 hashes of each `NAME==VERSION`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pypi: BTreeMap<String, Vec<String>>,
}

impl Lock {
    /// Returns the lock file that is part of this program.
    pub fn embedded() -> Result<Self, ImageError> {
        Lock::parse(include_str!("../../images.lock"), "the program's lock file")
    }

    /// Reads a lock file; a missing one is empty.
    pub fn read(path: &Path) -> Result<Self, ImageError> {
        match fs::read_to_string(path) {
            Ok(text) => Lock::parse(&text, &format!("'{}'", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Lock::default()),
            Err(error) => Err(ImageError::file("read", path)(error)),
        }
    }

    /// Replaces a lock file, and creates its directory.
    pub fn write(&self, path: &Path) -> Result<(), ImageError> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(ImageError::file("create", directory))?;
        }
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| ImageError::malformed("the lock file", error))?;
        let draft = path.with_extension("new");
        fs::write(&draft, text + "\n").map_err(ImageError::file("write", &draft))?;
        fs::rename(&draft, path).map_err(ImageError::file("write", path))
    }

    /// Adds the entries of another lock file; the newer of two applies.
    #[must_use]
    pub fn with(mut self, other: Lock) -> Self {
        for (name, entry) in other.bases {
            if self.bases.get(&name).is_none_or(|known| known.time < entry.time) {
                self.bases.insert(name, entry);
            }
        }
        for (name, entry) in other.recipes {
            if self.recipes.get(&name).is_none_or(|known| known.time < entry.time) {
                self.recipes.insert(name, entry);
            }
        }
        self
    }

    fn parse(text: &str, what: &str) -> Result<Self, ImageError> {
        serde_json::from_str(text).map_err(|error| ImageError::malformed(what, error))
    }

    /// Returns the digest of a base.
    pub(crate) fn digest(&self, base: &str) -> Option<&str> {
        self.bases.get(base).map(|base| base.digest.as_str())
    }

    pub(crate) fn set_digest(&mut self, base: &str, digest: String) {
        self.bases.insert(base.to_owned(), LockedBase { time: now(), digest });
    }

    pub(crate) fn set_packages(&mut self, recipe: &Recipe, packages: LockedPackages) {
        self.recipes.insert(recipe.locked_as.clone(), packages);
    }

    /// Returns the version of the recipe's first package.
    pub(crate) fn version(&self, recipe: &Recipe) -> Option<&str> {
        let first = recipe.packages.requirements().first()?;
        let locked = self.recipes.get(&recipe.locked_as)?;
        locked.versions.get(package_name(first)).map(String::as_str)
    }

    /// Returns the entry of a recipe; `None` if it has no packages. Errors: a package of the recipe is
    /// missing, or its first one has another version than `version`.
    pub(crate) fn packages(
        &self,
        recipe: &Recipe,
        version: Option<&str>,
        command: &str,
    ) -> Result<Option<&LockedPackages>, ImageError> {
        let requirements = recipe.packages.requirements();
        let Some(first) = requirements.first() else { return Ok(None) };
        let locked = self.recipes.get(&recipe.locked_as);
        let missing = |requirement: &&String| {
            locked.is_none_or(|it| !it.versions.contains_key(package_name(requirement)))
        };
        let update = |version: Option<&str>| {
            let version = version.map(|version| format!("@{version}")).unwrap_or_default();
            format!("{command} update {}{version}", recipe.short_name())
        };
        let refuse = |package: String, locked: Option<&str>| {
            Err(ImageError::NotLocked {
                recipe: recipe.name.clone(),
                package,
                locked: locked.map(|has| format!(", which has {has}")).unwrap_or_default(),
                hint: update(version),
            })
        };
        if let Some(package) = requirements.iter().find(missing) {
            return refuse(package.clone(), None);
        }
        let locked_version = self.version(recipe);
        match version {
            Some(version) if locked_version != Some(version) => {
                refuse(format!("{} {version}", package_name(first)), locked_version)
            }
            _ => Ok(locked),
        }
    }
}

impl LockedPackages {
    /// From a `package-lock.json`. Keeps what npm needs to verify and place the packages.
    pub(crate) fn from_npm(recipe: &Recipe, text: &str) -> Result<Self, ImageError> {
        let wrong = |reason: &str| ImageError::malformed("npm's lock file", reason);
        let mut lock: Value = serde_json::from_str(text)
            .map_err(|error| ImageError::malformed("npm's lock file", error))?;
        let Some(Value::Object(mut npm)) = lock.get_mut("packages").map(Value::take) else {
            return Err(wrong("it has no packages"));
        };
        npm.remove("");
        npm.retain(|_, package| runs_here(package));
        let names: Vec<String> = npm.keys().cloned().collect();
        for (path, package) in &mut npm {
            let Value::Object(package) = package else { return Err(wrong(path)) };
            let is_bundled = package.get("inBundle").is_some_and(|it| it == &Value::Bool(true));
            if !is_bundled && !is_sha512(package.get("integrity")) {
                return Err(wrong(&format!("'{path}' has no SHA-512 hash")));
            }
            package.retain(|key, _| !DROPPED.contains(&key.as_str()));
            // Those of other platforms, and those that the registry lacks.
            if let Some(Value::Object(optional)) = package.get_mut("optionalDependencies") {
                let is_here = |name: &str| {
                    names.iter().any(|path| path.strip_suffix(name).is_some_and(is_directory))
                };
                optional.retain(|name, _| is_here(name));
            }
        }
        let version = |requirement: &String| {
            let name = package_name(requirement);
            let package = npm.get(&format!("node_modules/{name}"));
            let version = package.and_then(|it| it.get("version")).and_then(Value::as_str);
            let version = version.ok_or_else(|| wrong(&format!("it lacks '{name}'")))?;
            Ok((name.to_owned(), version.to_owned()))
        };
        let versions = recipe.packages.requirements().iter().map(version);
        let versions = versions.collect::<Result<_, ImageError>>()?;
        Ok(LockedPackages { time: now(), versions, npm, pypi: BTreeMap::new() })
    }

    /// From files in the format of PEP 751, one per platform.
    pub(crate) fn from_pylock(recipe: &Recipe, texts: &[String]) -> Result<Self, ImageError> {
        let wrong = |reason: String| ImageError::malformed("uv's lock file", reason);
        let mut versions = BTreeMap::new();
        let mut pypi: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for text in texts {
            let lock: PyLock = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
            for package in lock.packages {
                let files = match package.wheels.is_empty() {
                    true => package.sdist.into_iter().collect(),
                    false => package.wheels,
                };
                let key = format!("{}=={}", package.name, package.version);
                let hashes = pypi.entry(key).or_default();
                hashes.extend(files.into_iter().map(|file| file.hashes.sha256));
                hashes.sort();
                hashes.dedup();
                versions.insert(package.name, package.version);
            }
        }
        if let Some((key, _)) = pypi.iter().find(|(_, hashes)| hashes.is_empty()) {
            return Err(wrong(format!("'{key}' has no hash")));
        }
        let named: Vec<_> =
            recipe.packages.requirements().iter().map(|it| package_name(it)).collect();
        versions.retain(|name, _| named.contains(&name.as_str()));
        if versions.len() < named.len() {
            return Err(wrong(format!("it lacks one of {}", named.join(" "))));
        }
        Ok(LockedPackages { time: now(), versions, npm: Map::new(), pypi })
    }

    /// Returns the number of packages.
    pub(crate) fn count(&self) -> usize {
        self.npm.len() + self.pypi.len()
    }

    /// Returns the files of a build context, by name.
    pub(crate) fn files(&self, packages: &Packages) -> Vec<(&'static str, String)> {
        match packages {
            Packages::None => Vec::new(),
            Packages::Npm(_) => {
                let mut tree = self.npm.clone();
                tree.insert(String::new(), json!({ "dependencies": self.versions }));
                let lock = json!({ "lockfileVersion": 3, "requires": true, "packages": tree });
                let versions = self.versions.clone().into_iter();
                vec![
                    ("package.json", package_json(versions)),
                    ("package-lock.json", lock.to_string()),
                ]
            }
            Packages::Pypi(_) | Packages::Wheels(_) => {
                let hashes = |hashes: &[String]| {
                    hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect::<String>()
                };
                let line = |(key, of): (&String, &Vec<String>)| format!("{key}{}\n", hashes(of));
                vec![("requirements.txt", self.pypi.iter().map(line).collect())]
            }
        }
    }
}

/// Facts of npm's lock files that an installation does not need.
const DROPPED: [&str; 5] = ["resolved", "license", "engines", "funding", "deprecated"];

/// Returns whether a package can be installed in one of the images: Linux with glibc, x64 or arm64.
fn runs_here(package: &Value) -> bool {
    let admits = |key: &str, wanted: &[&str]| match package.get(key).and_then(Value::as_array) {
        Some(list) => list.iter().any(|it| it.as_str().is_some_and(|it| wanted.contains(&it))),
        None => true,
    };
    admits("os", &["linux"]) && admits("cpu", &["x64", "arm64"]) && admits("libc", &["glibc"])
}

fn is_directory(path: &str) -> bool {
    path.ends_with("node_modules/")
}

fn is_sha512(integrity: Option<&Value>) -> bool {
    integrity.and_then(Value::as_str).is_some_and(|text| text.starts_with("sha512-"))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[derive(Deserialize)]
struct PyLock {
    #[serde(default)]
    packages: Vec<PyPackage>,
}

#[derive(Deserialize)]
struct PyPackage {
    name: String,
    version: String,
    #[serde(default)]
    wheels: Vec<PyFile>,
    sdist: Option<PyFile>,
}

#[derive(Deserialize)]
struct PyFile {
    hashes: PyHashes,
}

#[derive(Deserialize)]
struct PyHashes {
    sha256: String,
}

#[cfg(test)]
mod tests;
