//! The built-in table of kinds and their tools.

use aifo_types::Kind;

/// A built-in kind of sidecar.
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// The name.
    pub name: &'static str,
    /// Other names; compared without case.
    pub aliases: &'static [&'static str],
    /// The tools of this kind, without [`DEV_TOOLS`], which every kind may run.
    pub tools: &'static [&'static str],
}

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

/// In the order in which dev tools are tried.
const KINDS: &[KindSpec] = &[
    KindSpec { name: "c-cpp", aliases: &["c", "cpp", "c_cpp", "c++"], tools: &[] },
    KindSpec {
        name: "rust",
        aliases: &[],
        tools: &[
            "cargo",
            "rustc",
            "rust-analyzer",
            "rustup",
            "rustfmt",
            "cargo-fmt",
            "cargo-clippy",
            "clippy-driver",
            "cargo-nextest",
        ],
    },
    KindSpec { name: "go", aliases: &["golang"], tools: &["go", "gofmt"] },
    KindSpec {
        name: "node",
        aliases: &["ts", "typescript", "bun"],
        tools: &["node", "npm", "npx", "yarn", "pnpm", "corepack", "deno", "bun", "tsc", "ts-node"],
    },
    KindSpec {
        name: "python",
        aliases: &["py"],
        // And python3.N for every N: see `is_versioned_python`.
        tools: &["python", "python3", "pip", "pip3", "uv", "uvx"],
    },
];

/// Returns the built-in kinds in the order in which dev tools are tried.
pub fn kinds() -> &'static [KindSpec] {
    KINDS
}

impl KindSpec {
    /// Returns the kind of this name.
    pub fn kind(&self) -> Kind {
        // `the_table_is_sound` parses every name.
        Kind::parse(self.name).unwrap_or_else(|invalid| unreachable!("{invalid}"))
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
    fn versioned_pythons() {
        for tool in ["python3.9", "python3.12", "python3.100"] {
            assert!(is_versioned_python(tool), "{tool}");
        }
        for tool in ["python3.", "python3.x", "python2.7", "python3.1234", "Python3"] {
            assert!(!is_versioned_python(tool), "{tool}");
        }
    }
}
