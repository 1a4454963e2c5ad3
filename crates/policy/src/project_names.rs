//! Names of files in a project that programs execute or obey.

/// Patterns with at most one `*`, for files without regard to case. Without `/` they match a name anywhere in a project, with it a path from
/// the project's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectNames {
    /// Files and directories that the programs execute or obey.
    pub files: &'static [&'static str],
    /// JSON and TOML files, and `go.mod`, with parts that name commands.
    pub manifests: &'static [(&'static str, ManifestParts)],
    /// Output, caches and dependencies, which the programs write often.
    pub data: &'static [&'static str],
}

/// The parts of a manifest that name commands: keys, or `KEY.KEY` of a table in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestParts {
    /// These, as no other program adds keys.
    Only(&'static [&'static str]),
    /// All but these.
    AllBut(&'static [&'static str]),
}

impl ProjectNames {
    /// Returns names without manifests and data.
    pub const fn of(files: &'static [&'static str]) -> Self {
        ProjectNames { files, manifests: &[], data: &[] }
    }
}

pub(crate) const CARGO_TOML: (&str, ManifestParts) = (
    "Cargo.toml",
    ManifestParts::Only(&[
        "lib.proc-macro",
        "package.build",
        "package.metadata",
        "patch",
        "profile",
        "replace",
        "workspace.metadata",
    ]),
);

pub(crate) const GO_MOD: (&str, ManifestParts) =
    ("go.mod", ManifestParts::Only(&["replace", "tool", "toolchain"]));

pub(crate) const PACKAGE_JSON: (&str, ManifestParts) = (
    "package.json",
    ManifestParts::AllBut(&[
        "author",
        "browser",
        "browserslist",
        "bugs",
        "bundleDependencies",
        "bundledDependencies",
        "contributors",
        "cpu",
        "dependencies",
        "description",
        "devDependencies",
        "engines",
        "exports",
        "files",
        "funding",
        "homepage",
        "keywords",
        "license",
        "main",
        "module",
        "name",
        "optionalDependencies",
        "os",
        "overrides",
        "peerDependencies",
        "peerDependenciesMeta",
        "private",
        "publishConfig",
        "repository",
        "resolutions",
        "sideEffects",
        "type",
        "types",
        "typings",
        "version",
    ]),
);

pub(crate) const DENO_JSON: (&str, ManifestParts) =
    ("deno.json", ManifestParts::AllBut(&["exports", "imports", "name", "version"]));

pub(crate) const TSCONFIG_JSON: (&str, ManifestParts) =
    ("tsconfig.json", ManifestParts::Only(&["compilerOptions.plugins", "extends", "ts-node"]));

pub(crate) const PYPROJECT_TOML: (&str, ManifestParts) = (
    "pyproject.toml",
    ManifestParts::AllBut(&[
        "dependency-groups",
        "project.authors",
        "project.classifiers",
        "project.dependencies",
        "project.description",
        "project.dynamic",
        "project.keywords",
        "project.license",
        "project.license-files",
        "project.maintainers",
        "project.name",
        "project.optional-dependencies",
        "project.readme",
        "project.requires-python",
        "project.urls",
        "project.version",
        "tool.black",
        "tool.isort",
        "tool.ruff",
    ]),
);
