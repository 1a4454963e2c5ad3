//! The built-in table of kinds: a file of `kinds/` is all that a toolchain needs but the Dockerfile of its image.

use std::path::{Path, PathBuf};

use aifo_types::Kind;

use crate::project_names::{ManifestParts, ProjectNames};

/// A built-in toolchain: all that is specific to it, except for the Dockerfile of its image
/// (`crates/engine/recipes/NAME.Dockerfile`).
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// The name.
    pub name: &'static str,
    /// Other names; compared without case.
    pub aliases: &'static [&'static str],
    /// The tools of this kind, without [`DEV_TOOLS`], which every kind may run.
    pub tools: &'static [&'static str],
    /// Those of the tools that are interpreters: programs of the workspace name them by absolute paths,
    /// in one of [`INTERPRETER_DIRECTORIES`].
    pub interpreters: &'static [&'static str],
    /// Files of a project of this kind: names, or suffixes that start with '.'.
    pub markers: &'static [&'static str],
    /// Files that may name a version, the first of which decides.
    pub version_files: &'static [(&'static str, VersionFormat)],
    /// Further files of a project that its tools execute or obey. Names that start with '.' need no entry.
    pub project: ProjectNames,
    /// Its names in `.tool-versions` and `mise.toml`.
    pub version_names: &'static [&'static str],
    /// The repository of official images on Docker Hub, whose tags are versions.
    pub official_image: Option<&'static str>,
    /// Caches of its tools.
    pub caches: &'static [KindCache],
    /// Volumes of its containers that outlive sessions, for the caches.
    pub volumes: &'static [KindVolume],
    /// Variables of its tools, unless the user has set them.
    pub variables: &'static [(&'static str, &'static str)],
    /// Further ones in containers.
    pub container_variables: &'static [(&'static str, &'static str)],
}

/// The format of a file that names a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionFormat {
    /// The first line, such as `3.12` or `v20.11.1`.
    Line,
    /// `rust-toolchain`: a line, or as `RustToolchainToml`.
    RustToolchain,
    /// `channel` of `[toolchain]`.
    RustToolchainToml,
    /// `engines.node` of `package.json`.
    PackageJson,
    /// `toolchain` or `go` of `go.mod`: later versions will do.
    GoMod,
    /// A line with the kind's name and versions, as of asdf.
    ToolVersions,
    /// The kind's key in `[tools]`, as of mise.
    MiseToml,
}

/// A cache and the variable that points to it.
#[derive(Clone, Copy, Debug)]
pub struct KindCache {
    /// The variable.
    pub variable: &'static str,
    /// The directory of local sidecars, below the owner's caches. May be nested in another.
    pub local: &'static str,
    /// The directory in containers; `None` if only local sidecars keep it.
    pub container: Option<&'static str>,
}

/// A volume of a kind's containers.
#[derive(Clone, Copy, Debug)]
pub struct KindVolume {
    /// Prefix of the volume's name, before user id and project key.
    pub name: &'static str,
    /// Where it is mounted.
    pub path: &'static str,
}

/// The directories in which images have a toolchain's interpreters.
pub const INTERPRETER_DIRECTORIES: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// The minor versions of `python3.N` that are interpreters, too. A virtual environment names the
/// version that created it.
const INTERPRETER_MINORS: std::ops::RangeInclusive<u32> = 9..=15;

/// Tools that any kind may run, if its sidecar has them installed.
pub const DEV_TOOLS: &[&str] = &[
    "make",
    "cmake",
    "ninja",
    "pkg-config",
    "gcc",
    "g++",
    "clang",
    "clang++",
    "cc",
    "c++",
    "hadolint",
];

/// In the order in which dev tools are tried: the files of `kinds/`, by rank.
const KINDS: &[KindSpec] = include!(concat!(env!("OUT_DIR"), "/kinds.rs"));

/// Returns the built-in kinds in the order in which dev tools are tried.
pub fn kinds() -> &'static [KindSpec] {
    KINDS
}

/// Returns the row of a kind; `None` for a user's own.
pub fn kind_spec(kind: &Kind) -> Option<&'static KindSpec> {
    KINDS.iter().find(|spec| spec.name == kind.as_str())
}

impl KindSpec {
    /// Returns the kind of this name.
    pub fn kind(&self) -> Kind {
        // `the_table_is_sound` parses every name.
        Kind::parse(self.name).unwrap_or_else(|invalid| unreachable!("{invalid}"))
    }

    /// Returns the absolute paths by which programs of the workspace name the interpreters.
    pub fn interpreter_paths(&self) -> Vec<PathBuf> {
        let minors = (self.name == VERSIONED_PYTHON).then_some(INTERPRETER_MINORS);
        let versions = minors.into_iter().flatten().map(|minor| format!("python3.{minor}"));
        let names = self.interpreters.iter().map(|name| (*name).to_owned()).chain(versions);
        let paths = names.flat_map(|name| {
            INTERPRETER_DIRECTORIES.map(|directory| Path::new(directory).join(&name))
        });
        paths.collect()
    }

    /// Returns whether a tool is one of the interpreters.
    pub fn is_interpreter(&self, tool: &str) -> bool {
        self.interpreters.contains(&tool)
            || (self.name == VERSIONED_PYTHON && is_versioned_python(tool))
    }
}

/// The kind that runs `python3.N` for every N.
pub(crate) const VERSIONED_PYTHON: &str = "python";

/// Matches `python3.12`, but neither `python3.` nor `python3.12-config`.
pub(crate) fn is_versioned_python(tool: &str) -> bool {
    let minor = tool.strip_prefix("python3.").unwrap_or_default();
    (1..=3).contains(&minor.len()) && minor.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_is_sound() {
        let mut words = HashSet::new();
        for spec in kinds() {
            assert_eq!(spec.kind().as_str(), spec.name);
            let ProjectNames { files, manifests, .. } = spec.project;
            assert!(!files.is_empty(), "{}", spec.name);
            for (name, _) in manifests {
                assert!([".json", ".mod", ".toml"].iter().any(|end| name.ends_with(end)), "{name}");
            }
            for word in std::iter::once(&spec.name).chain(spec.aliases) {
                assert!(words.insert(*word), "'{word}' names two kinds");
            }
        }
        let own = kinds().iter().flat_map(|spec| spec.tools);
        let tools: Vec<_> = own.chain(DEV_TOOLS).collect();
        assert_eq!(
            tools.iter().collect::<HashSet<_>>().len(),
            tools.len(),
            "a tool is listed twice"
        );
    }

    #[test]
    fn interpreters_are_tools_of_their_kind() {
        for spec in kinds() {
            for name in spec.interpreters {
                assert!(spec.tools.contains(name), "{}: {name}", spec.name);
            }
            assert!(spec.interpreter_paths().iter().all(|path| {
                spec.is_interpreter(path.file_name().and_then(|name| name.to_str()).unwrap())
            }));
        }
        let paths =
            |kind: &str| kind_spec(&Kind::parse(kind).unwrap()).unwrap().interpreter_paths();
        assert_eq!(paths("node"), ["/usr/bin/node", "/usr/local/bin/node"].map(PathBuf::from));
        for path in ["/usr/bin/python", "/usr/local/bin/python3", "/usr/bin/python3.12"] {
            assert!(paths("python").contains(&path.into()), "{path}");
        }
        assert!(paths("rust").is_empty());
    }

    #[test]
    fn every_cache_of_a_container_is_in_a_volume() {
        for spec in kinds() {
            for path in spec.caches.iter().filter_map(|cache| cache.container) {
                let is_below = |volume: &KindVolume| path.starts_with(volume.path);
                assert!(spec.volumes.iter().any(is_below), "{}: {path}", spec.name);
            }
        }
    }

    #[test]
    fn versioned_pythons() {
        for tool in ["python3.9", "python3.12", "python3.100"] {
            assert!(is_versioned_python(tool), "{tool}");
        }
        for tool in ["python3.", "python3.x", "python2.7", "python3.1234", "Python3"] {
            assert!(!is_versioned_python(tool), "{tool}");
        }
    }
}
