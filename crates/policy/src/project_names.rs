//! Names of files in a project that programs execute or obey.

/// Patterns with at most one `*`, for files without regard to case. Without `/` they match a name anywhere in a project, with it a path from
/// the project root.
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
