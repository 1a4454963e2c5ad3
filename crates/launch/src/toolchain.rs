//! What a session offers of a kind: which version, and who says so.

use std::fmt;
use std::path::PathBuf;

use aifo_types::Kind;

/// A sidecar that a session is to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// Which kind.
    pub kind: Kind,
    /// Which version; `None` if nobody asks for one.
    pub version: Option<Version>,
}

/// A version as the tag of an image names it: 1 to 64 letters, digits and `.`, `_`, `-`, the first of
/// them a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    text: String,
    source: VersionSource,
}

/// Who asks for a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSource {
    /// The user, for this kind: nothing else will do.
    User,
    /// A file of the project's. Where there is only one version to be had, it is a wish.
    ProjectFile(PathBuf),
}

impl From<Kind> for Toolchain {
    fn from(kind: Kind) -> Self {
        Toolchain { kind, version: None }
    }
}

impl Version {
    /// Checks a version's text. `None` if it is none.
    pub fn new(text: &str, source: VersionSource) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let is_version = starts_well && text.len() <= 64 && text.bytes().all(plain);
        is_version.then(|| Version { text: text.to_owned(), source })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Who asks for it.
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
