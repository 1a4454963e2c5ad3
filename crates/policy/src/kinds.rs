//! The table of kinds and the tools they may run.

use aifo_types::Kind;

/// A kind of sidecar as we ship it.
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// Its name.
    pub name: &'static str,
    /// Other words a user may say for it; compared without case.
    pub aliases: &'static [&'static str],
    /// Its allowlist, but for [`DEV_TOOLS`], which every kind may run.
    pub tools: &'static [&'static str],
    /// Whether `python3.N` of any N is allowed too.
    pub versioned_python: VersionedPython,
}

/// Whether an allowlist holds `python3.N` for every N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionedPython {
    /// It does.
    Allowed,
    /// It does not.
    Absent,
}

/// Tools of more than one kind: whichever sidecar runs and has them may run them.
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

/// In the order in which dev tools try them.
const KINDS: &[KindSpec] = &[
    KindSpec {
        name: "c-cpp",
        aliases: &["c", "cpp", "c_cpp", "c++"],
        tools: &[],
        versioned_python: VersionedPython::Absent,
    },
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
        versioned_python: VersionedPython::Absent,
    },
    KindSpec {
        name: "go",
        aliases: &["golang"],
        tools: &["go", "gofmt"],
        versioned_python: VersionedPython::Absent,
    },
    KindSpec {
        name: "node",
        aliases: &["ts", "typescript", "bun"],
        tools: &["node", "npm", "npx", "yarn", "pnpm", "corepack", "deno", "bun", "tsc", "ts-node"],
        versioned_python: VersionedPython::Absent,
    },
    KindSpec {
        name: "python",
        aliases: &["py"],
        tools: &["python", "python3", "pip", "pip3", "uv", "uvx"],
        versioned_python: VersionedPython::Allowed,
    },
];

/// All kinds, in the order in which dev tools try them.
pub fn kinds() -> &'static [KindSpec] {
    KINDS
}

/// The kind that a user means by `word`: a name or an alias, in any case.
pub fn kind_named(word: &str) -> Option<&'static KindSpec> {
    KINDS.iter().find(|spec| {
        let mut words = std::iter::once(&spec.name).chain(spec.aliases);
        words.any(|known| known.eq_ignore_ascii_case(word))
    })
}

/// Every tool name of the table once, as links to the shim are made for them.
pub fn all_tools() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|spec| spec.tools).chain(DEV_TOOLS).copied()
}

impl KindSpec {
    /// The kind itself.
    pub fn kind(&self) -> Kind {
        // A test proves that every name of the table is one.
        Kind::parse(self.name).unwrap_or_else(|invalid| unreachable!("{invalid}"))
    }

    /// Whether this kind may run `tool`.
    pub fn allows(&self, tool: &str) -> bool {
        self.tools.contains(&tool)
            || DEV_TOOLS.contains(&tool)
            || (self.versioned_python == VersionedPython::Allowed && is_versioned_python(tool))
    }
}

/// `python3.12`, but neither `python3.` nor `python3.12-config`.
fn is_versioned_python(tool: &str) -> bool {
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
                assert!(words.insert(*word), "'{word}' means two kinds");
            }
        }
        let tools: Vec<_> = all_tools().collect();
        assert_eq!(tools.iter().collect::<HashSet<_>>().len(), tools.len(), "a tool stands twice");
    }

    #[test]
    fn users_words() {
        let rows = [
            ("rust", "rust"),
            ("TypeScript", "node"),
            ("bun", "node"),
            ("py", "python"),
            ("C++", "c-cpp"),
            ("c_cpp", "c-cpp"),
            ("golang", "go"),
        ];
        for (word, name) in rows {
            assert_eq!(kind_named(word).map(|spec| spec.name), Some(name), "{word}");
        }
        assert!(kind_named("java").is_none());
    }

    #[test]
    fn versioned_pythons() {
        let python = kind_named("python").unwrap();
        for tool in ["python3.9", "python3.12", "python3.100"] {
            assert!(python.allows(tool), "{tool}");
            assert!(!kind_named("rust").unwrap().allows(tool), "{tool}");
        }
        for tool in ["python3.", "python3.x", "python2.7", "python3.1234", "Python3"] {
            assert!(!python.allows(tool), "{tool}");
        }
    }
}
