//! Toolchains of a session and their versions.

use std::fmt;
use std::path::PathBuf;

use aifo_types::Kind;

/// A sidecar that a session offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// Its kind.
    pub kind: Kind,
    /// Its version; `None` for the default.
    pub version: Option<Version>,
}

/// A version, as in the tag of an image: 1 to 64 letters, digits and `.`, `_`, `-`, the first a
/// letter or digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    text: String,
    source: VersionSource,
}

/// Origin of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSource {
    /// The user, for this kind: mandatory.
    User,
    /// The project file. Ignored where only one version is available.
    ProjectFile(PathBuf),
}

impl From<Kind> for Toolchain {
    fn from(kind: Kind) -> Self {
        Toolchain { kind, version: None }
    }
}

impl Version {
    /// Checks the text of a version. Returns `None` if it is invalid.
    pub fn new(text: &str, source: VersionSource) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let is_version = starts_well && text.len() <= 64 && text.bytes().all(plain);
        is_version.then(|| Version { text: text.to_owned(), source })
    }

    /// Returns the text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the origin.
    pub fn source(&self) -> &VersionSource {
        &self.source
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let long = "1".repeat(65);
        let rows = [
            ("1.95", true),
            ("nightly-2026-01-01", true),
            ("3.14t", true),
            ("_1", false),
            ("", false),
            ("-x", false),
            (".1", false),
            ("1:2", false),
            ("1/2", false),
            ("1 2", false),
            (&long, false),
        ];
        for (text, expected) in rows {
            assert_eq!(Version::new(text, VersionSource::User).is_some(), expected, "{text}");
        }
    }
}
